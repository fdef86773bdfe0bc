// SPDX-License-Identifier: Apache-2.0
#include "phalanx/admin/admin_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include "phalanx/wire/codec.h"
#include "phalanx/wire/frame_header.h"
#include "phalanx/wire/limits.h"

namespace phalanx::admin {

namespace {

namespace asio = boost::asio;
using Protocol = asio::local::stream_protocol;

// Asio does not.
void close_on_exec(int fd) {
  static_cast<void>(::fcntl(fd, F_SETFD, FD_CLOEXEC));
}

constexpr int kMaxClients = 16;
constexpr auto kClientTimeout = std::chrono::seconds(10);

// How long accepting rests when the process has no descriptor left.
constexpr auto kRest = std::chrono::milliseconds(100);

// Between tries to connect to a server whose queue is full.
constexpr auto kConnectRetry = std::chrono::milliseconds(10);

// A leading zero byte makes the address abstract: it exists in the kernel only.
Protocol::endpoint endpoint_of(const std::string& name) {
  return {std::string(1, '\0') + name};
}

// For who speaks to a server in lines, as the clients of older versions do, and reads its JSON.
std::string line_for_others() {
  return R"({"code":"failed_precondition","error":"this server expects frames of version )" +
         std::to_string(wire::kProtocolVersion) +
         R"( of its protocol; use the phalanxctl that belongs to it","ok":false})"
         "\n";
}

wire::AdminRefused refusal_of(const Error& error) {
  return {static_cast<std::uint32_t>(error.code()),
          error.message().substr(0, wire::kMaxErrorBytes)};
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

// Who is at the other end, by the kernel: of a client its user when it connected, of a server its
// user when it began to listen.
std::optional<uid_t> peer_of(Protocol::socket& socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return std::nullopt;
  }
  return credentials.uid;
}

bool is_trusted(std::optional<uid_t> peer, uid_t user) {
  return peer && (*peer == 0 || *peer == user);
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
      answer(refusal_of(bytes.error()));
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
      answer(refusal_of(request.error()));
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
  const std::string bytes = wire::with_header(wire::encode(wire::AdminAnswer(refusal_of(error))));
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

namespace {

// The client's end of one call.
class Call {
 public:
  // Errors: as admin_call()
  [[nodiscard]] Result<wire::AdminAnswer> make(const AdminAddress& server,
                                               const wire::AdminRequest& request,
                                               Duration timeout) {
    const SteadyTime deadline = steady_clock().now() + timeout;
    PHALANX_RETURN_IF_ERROR(connect(server, deadline));
    request_ = wire::with_header(wire::encode(request));
    // Who is refused before its request is read finds the refusal behind a write that fails.
    asio::async_write(socket_,
                      asio::buffer(request_),
                      [this](boost::system::error_code, std::size_t) { read_header(); });
    io_.run_for(std::max(deadline - steady_clock().now(), Duration::zero()));
    if (!done_ && !error_) {
      return deadline_exceeded("the server did not answer in time");
    }
    if (error_) {
      return unavailable(
          "the server hung up: " + error_.message() +
          (is_trusted(geteuid(), server.uid) ? "" : "; only its own user and root are heard"));
    }
    PHALANX_RETURN_IF_ERROR(refused_);
    auto answer = wire::decode_admin_answer(answer_);
    if (!answer) {
      return data_loss("the server's answer could not be read: " + answer.error().message());
    }
    return answer;
  }

 private:
  Status connect(const AdminAddress& server, SteadyTime deadline) {
    const std::string name = admin_socket_name(server.uid, server.port);
    int error = try_to_connect(endpoint_of(name));
    // A server that accepts nobody has a queue that is full; its end is told by nothing.
    while (error == EAGAIN && steady_clock().now() < deadline) {
      std::this_thread::sleep_for(kConnectRetry);
      error = try_to_connect(endpoint_of(name));
    }
    if (error == EAGAIN) {
      return deadline_exceeded("the server took no connection in time");
    }
    if (error != 0) {
      return not_found("no server answers at @" + name + " (" +
                       boost::system::system_category().message(error) +
                       "): is phalanxd running on that port?");
    }
    if (const auto peer = peer_of(socket_); !is_trusted(peer, server.uid)) {
      return failed_precondition("the process at @" + name + " is run by " +
                                 (peer ? "user " + std::to_string(*peer) : "nobody known") +
                                 ", expected user " + std::to_string(server.uid) +
                                 " or root; nothing was sent to it");
    }
    return ok();
  }

  // 0, or the errno value.
  int try_to_connect(const Protocol::endpoint& endpoint) {
    boost::system::error_code error;
    if (!socket_.is_open()) {
      socket_.open(Protocol(), error);
    }
    if (!error) {
      socket_.native_non_blocking(true, error);
    }
    if (error) {
      return error.value();
    }
    const auto size = static_cast<socklen_t>(endpoint.size());
    const int result = ::connect(socket_.native_handle(), endpoint.data(), size);
    return result == 0 ? 0 : errno;
  }

  void read_header() {
    asio::async_read(socket_,
                     asio::buffer(header_),
                     header_or_other(header_),
                     [this](boost::system::error_code error, std::size_t size) {
                       error_ = error;
                       if (!error) {
                         on_header(size);
                       }
                     });
  }

  void on_header(std::size_t size) {
    const auto bytes = wire::frame_bytes_of(text_of(header_, size), wire::kMaxAdminAnswerBytes);
    if (!bytes) {
      refused_ =
          failed_precondition("the server's answer could not be read: " + bytes.error().message() +
                              "; use the phalanxctl that belongs to it");
      done_ = true;
      return;
    }
    answer_.resize(*bytes);
    asio::async_read(
        socket_, asio::buffer(answer_), [this](boost::system::error_code error, std::size_t) {
          error_ = error;
          done_ = true;
        });
  }

  asio::io_context io_;
  Protocol::socket socket_{io_};
  std::string request_;
  HeaderBytes header_{};
  std::string answer_;
  boost::system::error_code error_;
  Status refused_ = ok();
  bool done_ = false;
};

}  // namespace

Result<wire::AdminAnswer> admin_call(const AdminAddress& server,
                                     const wire::AdminRequest& request,
                                     Duration timeout) {
  PHALANX_RETURN_IF_ERROR(wire::check(request));
  Call call;
  return call.make(server, request, timeout);
}

}  // namespace phalanx::admin
