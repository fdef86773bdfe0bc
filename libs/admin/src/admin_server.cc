// SPDX-License-Identifier: Apache-2.0
#include "phalanx/admin/admin_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

namespace phalanx::admin {

namespace {

namespace asio = boost::asio;
using Protocol = asio::local::stream_protocol;

constexpr std::size_t kMaxLineBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxAnswerBytes = std::size_t{16} << 20;
constexpr int kMaxClients = 16;
constexpr auto kClientTimeout = std::chrono::seconds(10);

// A leading zero byte makes the address abstract: it exists in the kernel only.
Protocol::endpoint endpoint_of(const std::string& name) {
  return {std::string(1, '\0') + name};
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

// One client: reads a line, answers it, ends. Kept alive by its pending operations.
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
    asio::async_read_until(
        socket_,
        asio::dynamic_buffer(line_, kMaxLineBytes),
        '\n',
        [self = shared_from_this()](boost::system::error_code error, std::size_t length) {
          if (!error) {
            self->line_.resize(length - 1);
            self->handler_(self->line_,
                           [self](std::string answer) { self->answer(std::move(answer)); });
          }
        });
  }

 private:
  void answer(std::string text) {
    answer_ = std::move(text) + "\n";
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
  std::string line_;
  std::string answer_;
};

class AsioAdminServer final : public AdminServer {
 public:
  AsioAdminServer(Protocol::acceptor acceptor, Handler handler)
      : acceptor_(std::move(acceptor)), handler_(std::move(handler)) {}

  void accept() {
    acceptor_.async_accept([this](boost::system::error_code error, Protocol::socket socket) {
      if (error == asio::error::operation_aborted) {
        return;
      }
      if (!error && *clients_ < kMaxClients && is_trusted(peer_of(socket), geteuid())) {
        std::make_shared<Client>(std::move(socket), handler_, clients_)->start();
      }
      accept();
    });
  }

 private:
  Protocol::acceptor acceptor_;
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
    acceptor.bind(endpoint_of(name), error);
  }
  if (!error) {
    acceptor.listen(kMaxClients, error);
  }
  if (error) {
    return errno_error("admin socket @" + name, error.value());
  }
  auto server = std::make_unique<AsioAdminServer>(std::move(acceptor), std::move(handler));
  server->accept();
  return std::unique_ptr<AdminServer>(std::move(server));
}

std::string admin_socket_name(std::uint32_t uid, std::uint16_t port) {
  return "phalanx-admin-" + std::to_string(uid) + "-" + std::to_string(port);
}

Result<std::string> admin_call(const AdminAddress& server,
                               const std::string& line,
                               Duration timeout) {
  const std::string name = admin_socket_name(server.uid, server.port);
  asio::io_context io;
  Protocol::socket socket(io);
  boost::system::error_code error;
  socket.connect(endpoint_of(name), error);
  if (error) {
    return not_found("no server answers at @" + name + " (" + error.message() +
                     "): is phalanxd running on that port?");
  }
  if (const auto peer = peer_of(socket); !is_trusted(peer, server.uid)) {
    return failed_precondition("the process at @" + name + " is run by " +
                               (peer ? "user " + std::to_string(*peer) : "nobody known") +
                               ", expected user " + std::to_string(server.uid) +
                               " or root; nothing was sent to it");
  }
  std::string answer;
  bool done = false;
  const std::string request = line + "\n";
  asio::async_write(
      socket, asio::buffer(request), [&](boost::system::error_code write_error, std::size_t) {
        error = write_error;
        if (!error) {
          asio::async_read_until(socket,
                                 asio::dynamic_buffer(answer, kMaxAnswerBytes),
                                 '\n',
                                 [&](boost::system::error_code read_error, std::size_t) {
                                   error = read_error;
                                   done = true;
                                 });
        }
      });
  io.run_for(std::chrono::duration_cast<std::chrono::milliseconds>(timeout));
  if (!done && !error) {
    return deadline_exceeded("the server did not answer in time");
  }
  if (error) {
    return unavailable("the server hung up: " + error.message() +
                       "; only its own user and root are heard");
  }
  answer.pop_back();
  return answer;
}

}  // namespace phalanx::admin
