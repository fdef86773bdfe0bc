// SPDX-License-Identifier: Apache-2.0
#include "client_call.h"

namespace phalanx::http {
namespace {

// A fast server may not keep the loop from other calls.
constexpr int kReadsPerTurn = 4;

}  // namespace

std::optional<Tcp::socket> ClientCore::take_idle(const std::string& key) {
  auto& sockets = idle[key];
  while (!sockets.empty()) {
    Tcp::socket socket = std::move(sockets.back());
    sockets.pop_back();
    --idle_count;
    SystemError error;
    char byte = 0;
    socket.read_some(asio::buffer(&byte, 1), error);
    if (error == asio::error::would_block) {
      return socket;
    }
  }
  return std::nullopt;
}

void ClientCore::keep_idle(const std::string& key, Tcp::socket socket) {
  if (idle_count < options.idle_connections_max) {
    idle[key].push_back(std::move(socket));
    ++idle_count;
  }
}

ClientCall::ClientCall(std::shared_ptr<ClientCore> core,
                       ClientRequest request,
                       ClientCallbacks callbacks)
    : core_(std::move(core)),
      request_(std::move(request)),
      callbacks_(std::move(callbacks)),
      socket_(core_->loop.io()),
      resolver_(core_->loop.io()) {}

void ClientCall::start() {
  if (request_.total_timeout > Duration::zero()) {
    total_timer_ = core_->loop.call_after(request_.total_timeout, [this] {
      end(deadline_exceeded("no complete answer from " + where() + " within " +
                            seconds_text(request_.total_timeout)));
    });
  }
  core_->loop.post([self = shared_from_this()] {
    if (!self->finished_) {
      self->begin_attempt();
    }
  });
}

void ClientCall::begin_attempt() {
  auto kept = core_->take_idle(where());
  reused_ = kept.has_value();
  if (kept) {
    socket_ = std::move(*kept);
    return on_connected();
  }
  connect();
}

void ClientCall::connect() {
  connect_timer_ = core_->loop.call_after(request_.connect_timeout, [this] {
    end(deadline_exceeded("no connection to " + where() + " within " +
                          seconds_text(request_.connect_timeout)));
  });
  SystemError error;
  const asio::ip::address address = asio::ip::make_address(request_.host, error);
  if (!error) {
    return connect_to({Tcp::endpoint(address, request_.port)}, 0);
  }
  resolver_.async_resolve(request_.host,
                          std::to_string(request_.port),
                          [self = shared_from_this()](const SystemError& failure,
                                                      const Tcp::resolver::results_type& results) {
                            if (self->finished_) {
                              return;
                            }
                            if (failure) {
                              return self->end(unavailable("cannot resolve " + self->request_.host +
                                                           ": " + failure.message()));
                            }
                            std::vector<Tcp::endpoint> endpoints;
                            for (const auto& entry : results) {
                              endpoints.push_back(entry.endpoint());
                            }
                            self->connect_to(endpoints, 0);
                          });
}

void ClientCall::connect_to(const std::vector<Tcp::endpoint>& endpoints, std::size_t index) {
  SystemError ignored;
  socket_.close(ignored);
  socket_ = Tcp::socket(core_->loop.io());
  socket_.async_connect(
      endpoints[index], [self = shared_from_this(), endpoints, index](const SystemError& error) {
        if (self->finished_) {
          return;
        }
        if (!error) {
          return self->on_connected();
        }
        if (index + 1 < endpoints.size()) {
          return self->connect_to(endpoints, index + 1);
        }
        self->end(unavailable("cannot connect to " + self->where() + ": " + error.message()));
      });
}

void ClientCall::on_connected() {
  connect_timer_.reset();
  if (callbacks_.on_connected) {
    callbacks_.on_connected();
    if (finished_) {
      return;
    }
  }
  SystemError ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(Tcp::no_delay(true), ignored);
  reader_.emplace(request_.method == "HEAD");
  output_.push(head());
  // What goes by a kept connection may have to be sent again.
  output_.push(reused_ ? std::string(request_.body) : std::move(request_.body));
  wait_readable();
  flush();
}

void ClientCall::flush() {
  SystemError error;
  output_.write_to(socket_, error);
  if (error == asio::error::would_block || (!error && !output_.empty())) {
    socket_.async_wait(Tcp::socket::wait_write,
                       [self = shared_from_this()](const SystemError& failure) {
                         if (!failure && !self->finished_) {
                           self->flush();
                         }
                       });
  }
  // Any other error also shows when reading, with what the server may have said before it hung up.
}

void ClientCall::wait_readable() {
  socket_.async_wait(Tcp::socket::wait_read, [self = shared_from_this()](const SystemError& error) {
    if (!error && !self->finished_) {
      self->on_readable();
    }
  });
}

void ClientCall::on_readable() {
  for (int i = 0; i < kReadsPerTurn; ++i) {
    SystemError error;
    const std::size_t count = socket_.read_some(asio::buffer(core_->scratch), error);
    if (error == asio::error::would_block) {
      break;
    }
    if (error) {
      return on_peer_closed(error);
    }
    received_ = true;
    on_bytes({core_->scratch.data(), count});
    if (finished_) {
      return;
    }
    if (count < core_->scratch.size()) {
      break;
    }
  }
  wait_readable();
}

void ClientCall::on_bytes(std::string_view bytes) {
  in_.append(bytes);
  const auto used = reader_->feed(in_);
  if (!used) {
    return end(used.error());
  }
  in_.erase(0, *used);
  if (reader_->has_head() && !std::exchange(head_told_, true) && callbacks_.on_head) {
    callbacks_.on_head(reader_->status(), reader_->headers());
  }
  if (finished_) {
    return;
  }
  const std::string body = reader_->take_body();
  if (!body.empty() && callbacks_.on_data) {
    callbacks_.on_data(body);
  }
  if (finished_ || !reader_->complete()) {
    return;
  }
  if (reader_->keep_alive() && output_.empty() && in_.empty()) {
    core_->keep_idle(where(), std::move(socket_));
    socket_ = Tcp::socket(core_->loop.io());
  }
  end(ok());
}

// Nothing is done twice: either it changes nothing, or the server cannot have seen all of it.
bool ClientCall::may_send_again() const {
  return request_.method == "GET" || request_.method == "HEAD" || !output_.empty();
}

void ClientCall::on_peer_closed(const SystemError& error) {
  if (reused_ && !received_ && may_send_again()) {
    // The server closed the kept connection before it saw this request: not a failure of it.
    SystemError ignored;
    socket_.close(ignored);
    static_cast<void>(output_.take());
    reused_ = false;
    return connect();
  }
  if (error != asio::error::eof) {
    return end(unavailable("connection to " + where() + " lost: " + error.message()));
  }
  Status status = reader_->feed_end();
  end(std::move(status));
}

void ClientCall::end(Status status) {
  if (finished_) {
    return;
  }
  const auto self = shared_from_this();
  finished_ = true;
  close();
  const ClientCallbacks callbacks = std::exchange(callbacks_, {});
  if (callbacks.on_end) {
    callbacks.on_end(std::move(status));
  }
}

void ClientCall::cancel() {
  if (finished_) {
    return;
  }
  finished_ = true;
  close();
  core_->loop.post([self = shared_from_this()] {
    const ClientCallbacks callbacks = std::exchange(self->callbacks_, {});
    if (callbacks.on_end) {
      callbacks.on_end(Error(Code::kCancelled, "the request was cancelled"));
    }
  });
}

void ClientCall::drop() {
  finished_ = true;
  close();
  // The call may be dropped from inside one of its callbacks, which must live until it returns.
  core_->loop.post([callbacks = std::exchange(callbacks_, {})] {});
}

void ClientCall::close() {
  SystemError ignored;
  socket_.close(ignored);
  resolver_.cancel();
  connect_timer_.reset();
  total_timer_.reset();
}

std::string ClientCall::where() const {
  const bool is_ipv6 = request_.host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + request_.host + "]" : request_.host) + ":" +
         std::to_string(request_.port);
}

std::string ClientCall::head() const {
  std::string out = request_.method + " " + request_.target + " HTTP/1.1\r\n";
  if (request_.headers.find("host") == nullptr) {
    out.append("host: ").append(where()).append("\r\n");
  }
  for (const auto& [name, value] : request_.headers.fields()) {
    out.append(name).append(": ").append(value).append("\r\n");
  }
  if (!request_.body.empty() || request_.method == "POST") {
    out.append("content-length: ").append(std::to_string(request_.body.size())).append("\r\n");
  }
  return out.append("\r\n");
}

}  // namespace phalanx::http
