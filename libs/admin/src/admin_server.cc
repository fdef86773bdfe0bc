// SPDX-License-Identifier: Apache-2.0
#include "phalanx/admin/admin_server.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include "phalanx/admin/commands.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/frame_header.h"
#include "phalanx/wire/limits.h"

#include "admin_socket.h"

namespace phalanx::admin {

namespace {

namespace asio = boost::asio;

// Asio does not.
void close_on_exec(int fd) {
  static_cast<void>(::fcntl(fd, F_SETFD, FD_CLOEXEC));
}

constexpr int kMaxClients = 16;
constexpr auto kClientTimeout = std::chrono::seconds(10);

// How long accepting rests when the process has no descriptor left.
constexpr auto kRest = std::chrono::milliseconds(100);

// For who speaks to a server in lines, as the clients of older versions do, and reads its JSON.
std::string line_for_others() {
  return R"({"code":"failed_precondition","error":"this server expects frames of version )" +
         std::to_string(wire::kProtocolVersion) +
         R"( of its protocol; use the phalanxctl that belongs to it","ok":false})"
         "\n";
}

using HeaderBytes = std::array<char, wire::kFrameHeaderBytes>;

std::string_view text_of(const HeaderBytes& header, std::size_t size = wire::kFrameHeaderBytes) {
  return {header.data(), size};
}

// A header, or as little as shows that it will be none.
auto header_or_other(const HeaderBytes& header) {
  return [&header](const boost::system::error_code& error, std::size_t size) -> std::size_t {
    const bool done = error || size == header.size() ||
                      (size > 0 && !wire::begins_as_header(text_of(header, size)));
    return done ? 0 : header.size() - size;
  };
}

// One client: reads a request, answers it, ends. Kept alive by its pending operations.
class Client : public std::enable_shared_from_this<Client> {
 public:
  Client(Protocol::socket socket, AdminServer::Handler handler, std::shared_ptr<int> count)
      : socket_(std::move(socket)),
        timer_(socket_.get_executor()),
        handler_(std::move(handler)),
        count_(std::move(count)) {
    ++*count_;
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { --*count_; }

  void start() {
    timer_.expires_after(kClientTimeout);
    timer_.async_wait([self = weak_from_this()](boost::system::error_code error) {
      if (const auto client = self.lock(); client && !error) {
        client->close();
      }
    });
    asio::async_read(
        socket_,
        asio::buffer(header_),
        header_or_other(header_),
        [self = shared_from_this()](boost::system::error_code error, std::size_t size) {
          if (!error) {
            self->on_header(size);
          }
        });
  }

 private:
  void on_header(std::size_t size) {
    if (!wire::begins_as_header(text_of(header_, size))) {
      send(line_for_others());
      return;
    }
    const auto bytes = wire::frame_bytes_of(text_of(header_), wire::kMaxAdminRequestBytes);
    if (!bytes) {
      answer(answer_of(bytes.error()));
      return;
    }
    request_.resize(*bytes);
    asio::async_read(socket_,
                     asio::buffer(request_),
                     [self = shared_from_this()](boost::system::error_code error, std::size_t) {
                       if (!error) {
                         self->on_request();
                       }
                     });
  }

  void on_request() {
    const auto request = wire::decode_admin_request(request_);
    if (!request) {
      answer(answer_of(request.error()));
      return;
    }
    handler_(*request,
             [self = shared_from_this()](const wire::AdminAnswer& text) { self->answer(text); });
  }

  void answer(const wire::AdminAnswer& answer) { send(wire::with_header(wire::encode(answer))); }

  void send(std::string bytes) {
    answer_ = std::move(bytes);
    asio::async_write(
        socket_,
        asio::buffer(answer_),
        [self = shared_from_this()](boost::system::error_code, std::size_t) { self->close(); });
  }

  void close() {
    boost::system::error_code ignored;
    timer_.cancel();
    socket_.close(ignored);
  }

  Protocol::socket socket_;
  asio::steady_timer timer_;
  AdminServer::Handler handler_;
  std::shared_ptr<int> count_;
  HeaderBytes header_{};
  std::string request_;
  std::string answer_;
};

// Into the empty buffer of a socket that is closed behind it, so that nobody is waited for.
void refuse(Protocol::socket& socket, const Error& error) {
  const std::string bytes = wire::with_header(wire::encode(answer_of(error)));
  boost::system::error_code ignored;
  socket.native_non_blocking(true, ignored);
  socket.write_some(asio::buffer(bytes), ignored);
}

class AsioAdminServer final : public AdminServer {
 public:
  AsioAdminServer(os::EventLoop& loop, Protocol::acceptor acceptor, Handler handler)
      : loop_(loop), acceptor_(std::move(acceptor)), handler_(std::move(handler)) {}

  void accept() {
    acceptor_.async_accept([this](boost::system::error_code error, Protocol::socket socket) {
      if (error == asio::error::operation_aborted) {
        return;
      }
      if (error) {
        rest_ = loop_.call_after(kRest, [this] { accept(); });
        return;
      }
      close_on_exec(socket.native_handle());
      admit(std::move(socket));
      accept();
    });
  }

 private:
  void admit(Protocol::socket socket) {
    if (!is_trusted(peer_of(socket), geteuid())) {
      return;
    }
    if (*clients_ >= kMaxClients) {
      refuse(socket,
             resource_exhausted("too many clients: the server hears " +
                                std::to_string(kMaxClients) + " at a time; try again"));
      return;
    }
    std::make_shared<Client>(std::move(socket), handler_, clients_)->start();
  }

  os::EventLoop& loop_;
  Protocol::acceptor acceptor_;
  std::unique_ptr<os::EventLoop::Handle> rest_;
  Handler handler_;
  std::shared_ptr<int> clients_ = std::make_shared<int>(0);
};

}  // namespace

Result<std::unique_ptr<AdminServer>> AdminServer::listen(os::EventLoop& loop,
                                                         const std::string& name,
                                                         Handler handler) {
  Protocol::acceptor acceptor(loop.io());
  boost::system::error_code error;
  acceptor.open(Protocol(), error);
  if (!error) {
    close_on_exec(acceptor.native_handle());
    acceptor.bind(endpoint_of(name), error);
  }
  if (!error) {
    acceptor.listen(kMaxClients, error);
  }
  if (error.value() == EADDRINUSE) {
    return failed_precondition(
        "admin socket @" + name +
        ": another process has this name, most likely a server of this user with this port, be it "
        "at another address; give this one another --port, by which phalanxctl tells them apart");
  }
  if (error) {
    return errno_error("admin socket @" + name, error.value());
  }
  auto server = std::make_unique<AsioAdminServer>(loop, std::move(acceptor), std::move(handler));
  server->accept();
  return std::unique_ptr<AdminServer>(std::move(server));
}

std::string admin_socket_name(std::uint32_t uid, std::uint16_t port) {
  return "phalanx-admin-" + std::to_string(uid) + "-" + std::to_string(port);
}

}  // namespace phalanx::admin
