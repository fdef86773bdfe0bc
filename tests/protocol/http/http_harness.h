// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <gtest/gtest.h>
#include <netinet/in.h>

#include "phalanx/http/response_reader.h"
#include "phalanx/http/server.h"
#include "phalanx/os/tcp_listener.h"

namespace phalanx::http {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A blocking client that shows the bytes as they are. Every wait ends after ten seconds.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer_bytes = 0) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval timeout{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    if (receive_buffer_bytes > 0) {
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      ADD_FAILURE() << "no connection to port " << port;
    }
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  ~RawClient() { close(); }

  // Its own, which the server sees as its peer's.
  [[nodiscard]] std::uint16_t port() const {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
  }

  // False if the server has hung up; reading shows what it said.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) {
        return false;
      }
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }

  // One response, or nothing if the connection ends or stays silent first.
  std::optional<Response> read_response(bool answer_to_head = false) {
    ResponseReader reader(answer_to_head);
    Response response;
    while (true) {
      const auto used = reader.feed(buffer_);
      if (!used) {
        return std::nullopt;
      }
      buffer_.erase(0, *used);
      if (reader.has_head()) {
        response.body.append(reader.take_body());
      }
      if (reader.complete()) {
        break;
      }
      if (!receive()) {
        if (!reader.feed_end()) {
          return std::nullopt;
        }
        break;
      }
    }
    response.status = reader.status();
    response.headers = reader.headers();
    return response;
  }

  // Everything up to and with `marker`; shorter if the connection ends first.
  std::string read_until(std::string_view marker) {
    while (buffer_.find(marker) == std::string::npos) {
      if (!receive()) {
        return std::exchange(buffer_, {});
      }
    }
    const std::size_t end = buffer_.find(marker) + marker.size();
    std::string result = buffer_.substr(0, end);
    buffer_.erase(0, end);
    return result;
  }

  // Whether the server closes the connection in an orderly way, without a further byte, within ten
  // seconds.
  bool closed_by_server() { return buffer_.empty() && !receive() && !timed_out_ && !was_reset_; }

  // Whether it resets the connection, whatever it has sent before.
  bool reset_by_server() {
    while (receive()) {
    }
    return was_reset_;
  }

  void shutdown_sending() { ::shutdown(fd_, SHUT_WR); }

  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }

  void close() {
    if (fd_ >= 0) {
      ::close(std::exchange(fd_, -1));
    }
  }

 private:
  bool receive() {
    std::array<char, 65536> bytes{};
    const ssize_t count = ::recv(fd_, bytes.data(), bytes.size(), 0);
    was_reset_ = count < 0 && errno == ECONNRESET;
    timed_out_ = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (count <= 0) {
      return false;
    }
    buffer_.append(bytes.data(), static_cast<std::size_t>(count));
    return true;
  }

  int fd_ = -1;
  bool timed_out_ = false;
  bool was_reset_ = false;
  std::string buffer_;
};

// Accepts clients for a server, and holds a duplicate of each socket until the server says that the
// connection is closed, as the process that listens does for those that speak.
class Acceptor {
 public:
  explicit Acceptor(os::EventLoop& loop)
      : loop_(loop), listener_(os::TcpListener::listen("localhost", 0, 4096)) {}
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // To be called from ServerOptions::on_closed.
  void on_closed(std::uint64_t id) {
    ++closed_;
    if (!keeps_sockets_) {
      sockets_.erase(id);
    }
  }

  void serve(Server& server) {
    watch_ = *loop_.watch_readable(listener_->fd(), [this, &server] {
      auto accepted = listener_->accept();
      ASSERT_TRUE(accepted) << accepted.error().to_string();
      if (*accepted) {
        adopt(server, **std::move(accepted));
      }
    });
  }

  void stop() { watch_.reset(); }
  void keep_sockets() { keeps_sockets_ = true; }                     // until the end of the test
  void refuse(std::string reason) { refusal_ = std::move(reason); }  // those that come from now on
  void go_on(bool goes_on) { goes_on_ = goes_on; }                   // likewise

  // Sees what the server is told of those that come from now on.
  void prepare(std::function<void(ConnectionInfo&)> prepare) { prepare_ = std::move(prepare); }

  [[nodiscard]] std::uint16_t port() const { return listener_->port(); }
  [[nodiscard]] std::uint64_t accepted() const { return accepted_; }
  [[nodiscard]] std::uint64_t closed() const { return closed_; }
  [[nodiscard]] std::size_t held() const { return sockets_.size(); }

 private:
  void adopt(Server& server, os::AcceptedSocket accepted) {
    auto duplicate = accepted.fd.duplicate();
    ASSERT_TRUE(duplicate) << duplicate.error().to_string();
    const std::uint64_t id = ++accepted_;
    sockets_.emplace(id, std::move(accepted.fd));
    ConnectionInfo info;
    info.id = id;
    info.peer = accepted.address + ":" + std::to_string(accepted.port);
    info.refusal = refusal_;
    info.goes_on = goes_on_;
    if (prepare_) {
      prepare_(info);
    }
    server.adopt(*std::move(duplicate), std::move(info));
  }

  os::EventLoop& loop_;
  Result<os::TcpListener> listener_;
  std::unique_ptr<os::EventLoop::Handle> watch_;
  std::map<std::uint64_t, os::UniqueFd> sockets_;
  std::function<void(ConnectionInfo&)> prepare_;
  std::string refusal_;
  std::uint64_t accepted_ = 0;
  std::uint64_t closed_ = 0;
  bool keeps_sockets_ = false;
  bool goes_on_ = false;
};

// A server on a loop of its own thread.
class RunningServer {
 public:
  RunningServer(ServerOptions options, Handler handler)
      : RunningServer(std::move(options), std::move(handler), [](os::EventLoop&) {}) {}

  // `before` sees the loop before it runs.
  RunningServer(ServerOptions options,
                Handler handler,
                const std::function<void(os::EventLoop&)>& before) {
    options.on_closed = [this, tell = std::move(options.on_closed)](std::uint64_t id) {
      if (tell) {
        tell(id);
      }
      acceptor_.on_closed(id);
    };
    auto server = Server::create(loop_, std::move(options), std::move(handler));
    if (!server) {
      ADD_FAILURE() << server.error().to_string();
      return;
    }
    server_ = *std::move(server);
    acceptor_.serve(*server_);
    before(loop_);
    thread_ = std::thread([this] { loop_.run(); });
  }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;

  ~RunningServer() {
    if (thread_.joinable()) {
      destroy();
      loop_.stop();
      thread_.join();
    }
  }

  // Ends the server; the sockets that the acceptor holds stay open.
  void destroy() {
    call([this] {
      acceptor_.stop();
      server_.reset();
    });
  }

  // Runs `action` on the loop and waits for it.
  template <typename Action>
  auto call(Action action) -> decltype(action()) {
    std::packaged_task<decltype(action())()> task(std::move(action));
    auto result = task.get_future();
    loop_.post([&task] { task(); });
    return result.get();
  }

  // Waits until `condition`, asked on the loop, holds.
  bool eventually(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(10);
    while (!call(condition)) {
      if (std::chrono::steady_clock::now() > deadline) {
        return false;
      }
      std::this_thread::yield();
    }
    return true;
  }

  [[nodiscard]] std::uint16_t port() const { return acceptor_.port(); }
  os::EventLoop& loop() { return loop_; }
  Acceptor& acceptor() { return acceptor_; }
  Server& server() { return *server_; }
  ServerCounters counters() {
    return call([this] { return server_->counters(); });
  }
  std::uint64_t accepted() {
    return call([this] { return acceptor_.accepted(); });
  }

 private:
  os::EventLoop loop_;
  Acceptor acceptor_{loop_};
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

// Answers with what was asked.
inline void echo(const Request& request, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond(
      text_response(200, request.method + " " + request.path + " " + request.body.text()));
}

inline std::string get(std::string_view path, std::string_view fields = "") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(fields) +
         "\r\n";
}

inline std::string post(std::string_view path, std::string_view body) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string(body);
}

}  // namespace phalanx::http
