// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include "phalanx/http/response_reader.h"
#include "phalanx/http/server.h"

namespace phalanx::http {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A blocking client that shows the bytes as they are. Every wait ends after ten seconds.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port,
                     int receive_buffer_bytes = 0,
                     const char* from_address = nullptr) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval timeout{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    if (receive_buffer_bytes > 0) {
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
    }
    if (from_address != nullptr) {
      sockaddr_in from{};
      from.sin_family = AF_INET;
      ::inet_pton(AF_INET, from_address, &from.sin_addr);
      ::bind(fd_, reinterpret_cast<const sockaddr*>(&from), sizeof from);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  ~RawClient() { close(); }

  [[nodiscard]] bool connected() const { return connected_; }

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) {
        return;  // the server has hung up; reading shows what it said
      }
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
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

  // Whether the server closes the connection, without a further byte, within ten seconds.
  bool closed_by_server() { return buffer_.empty() && !receive() && !timed_out_; }

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
    timed_out_ = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (count <= 0) {
      return false;
    }
    buffer_.append(bytes.data(), static_cast<std::size_t>(count));
    return true;
  }

  int fd_ = -1;
  bool connected_ = false;
  bool timed_out_ = false;
  std::string buffer_;
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
    auto listening = Server::listen(loop_, std::move(options), std::move(handler));
    if (!listening) {
      ADD_FAILURE() << listening.error().to_string();
      return;
    }
    server_ = std::move(listening).value();
    port_ = server_->port();
    before(loop_);
    thread_ = std::thread([this] { loop_.run(); });
  }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;

  ~RunningServer() {
    if (thread_.joinable()) {
      call([this] { server_.reset(); });
      loop_.stop();
      thread_.join();
    }
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

  [[nodiscard]] std::uint16_t port() const { return port_; }
  os::EventLoop& loop() { return loop_; }
  Server& server() { return *server_; }
  ServerCounters counters() {
    return call([this] { return server_->counters(); });
  }

 private:
  os::EventLoop loop_;
  std::unique_ptr<Server> server_;
  std::uint16_t port_ = 0;
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
