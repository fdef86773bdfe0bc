// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/server.h"

#include <algorithm>
#include <random>
#include <vector>

#include "asio.h"
#include "connection.h"
#include "server_core.h"

namespace phalanx::http {
namespace {

// Connections beyond the limit that are told so; past them, the door is just shut.
constexpr std::size_t kRefusedConnectionsMax = 256;

// How long accepting rests when the process has no descriptor left.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

Error listen_error(const ServerOptions& options, const SystemError& error) {
  const std::string where = options.address + ":" + std::to_string(options.port);
  if (error == asio::error::address_in_use) {
    return {Code::kFailedPrecondition,
            "cannot listen on " + where +
                ": the port is taken by another process; choose "
                "another port or stop that process"};
  }
  if (error == asio::error::access_denied) {
    return {Code::kFailedPrecondition,
            "cannot listen on " + where +
                ": this user may not bind the port; ports below 1024 "
                "belong to root"};
  }
  return {Code::kInvalidArgument, "cannot listen on " + where + ": " + error.message()};
}

Result<asio::ip::address> parse_address(const std::string& text) {
  if (text == "localhost") {
    return asio::ip::address(asio::ip::address_v4::loopback());
  }
  SystemError error;
  asio::ip::address address = asio::ip::make_address(text, error);
  if (error) {
    return invalid_argument(
        "expected a numeric address to listen on, as 127.0.0.1 or 0.0.0.0; "
        "came \"" +
        text + "\"");
  }
  return address;
}

Duration tick_period(const ServerOptions& options) {
  Duration shortest = std::chrono::seconds(1);
  for (const Duration timeout : {options.header_timeout,
                                 options.body_timeout,
                                 options.idle_timeout,
                                 options.write_timeout,
                                 options.comment_interval}) {
    if (timeout > Duration::zero()) {
      shortest = std::min(shortest, timeout);
    }
  }
  return std::max<Duration>(shortest / 4, std::chrono::milliseconds(5));
}

class AsioServer final : public Server {
 public:
  AsioServer(os::EventLoop& loop, ServerOptions options, Handler handler)
      : core_(std::make_shared<ServerCore>(loop, std::move(options), std::move(handler))),
        acceptor_(loop.io()) {
    std::random_device random;
    core_->next_request_id = (std::uint64_t{random()} << 32U) | random();
  }
  AsioServer(const AsioServer&) = delete;
  AsioServer& operator=(const AsioServer&) = delete;

  ~AsioServer() override {
    core_->destroyed = true;
    core_->handler = nullptr;
    *alive_ = false;
    SystemError ignored;
    acceptor_.close(ignored);
    for (const auto& connection : snapshot()) {
      connection->discard();
    }
  }

  Status open() {
    PHALANX_TRY(const asio::ip::address address, parse_address(core_->options.address));
    const Tcp::endpoint endpoint(address, core_->options.port);
    SystemError error;
    const auto step = [&](auto&& action) {
      if (!error) {
        action();
      }
    };
    step([&] { acceptor_.open(endpoint.protocol(), error); });
    step([&] { acceptor_.set_option(Tcp::acceptor::reuse_address(true), error); });
    step([&] { acceptor_.bind(endpoint, error); });
    step([&] { acceptor_.listen(core_->options.backlog, error); });
    if (error) {
      return listen_error(core_->options, error);
    }
    port_ = acceptor_.local_endpoint(error).port();
    ticker_ = core_->loop.call_every(tick_period(core_->options), [this] { tick(); });
    accept();
    return ok();
  }

  [[nodiscard]] std::uint16_t port() const override { return port_; }

  void stop_accepting() override {
    SystemError ignored;
    acceptor_.close(ignored);
    retry_.reset();
  }

  void close_idle() override {
    core_->draining = true;
    for (const auto& connection : snapshot()) {
      connection->close_when_idle();
    }
  }

  void close(Duration deadline, std::function<void(std::size_t)> done) override {
    stop_accepting();
    close_idle();
    on_closed_ = std::move(done);
    deadline_ = core_->loop.call_after(deadline, [this] { cut(); });
    closing_ = core_->loop.call_every(std::chrono::milliseconds(5), [this] { finish_close(); });
  }

  [[nodiscard]] std::size_t connections() const override { return core_->connections.size(); }
  [[nodiscard]] std::size_t exchanges() const override { return core_->exchanges; }
  [[nodiscard]] const ServerCounters& counters() const override { return core_->counters; }

 private:
  [[nodiscard]] std::vector<std::shared_ptr<Connection>> snapshot() const {
    return {core_->connections.begin(), core_->connections.end()};
  }

  void accept() {
    acceptor_.async_accept([this, alive = alive_](SystemError error, Tcp::socket socket) {
      if (!*alive || !acceptor_.is_open()) {
        return;
      }
      if (!error) {
        admit(std::move(socket));
      } else if (error != asio::error::connection_aborted) {
        retry_ = core_->loop.call_after(kAcceptPause, [this] { accept(); });
        return;
      }
      accept();
    });
  }

  void admit(Tcp::socket socket) {
    const std::size_t limit = core_->options.connections_max;
    const std::size_t count = core_->connections.size();
    if (count >= limit + kRefusedConnectionsMax) {
      ++core_->counters.connections_refused;
      return;
    }
    auto connection = std::make_shared<Connection>(core_, std::move(socket));
    core_->connections.insert(connection);
    if (count >= limit) {
      connection->start_refused();
    } else {
      ++core_->counters.connections_accepted;
      connection->start();
    }
  }

  void tick() {
    const SteadyTime now = steady_clock().now();
    for (const auto& connection : snapshot()) {
      connection->tick(now);
    }
  }

  void cut() {
    for (const auto& connection : snapshot()) {
      cut_ += connection->has_exchange() ? 1U : 0U;
      connection->abort();
    }
  }

  void finish_close() {
    if (!core_->connections.empty()) {
      return;
    }
    deadline_.reset();
    auto done = std::exchange(on_closed_, nullptr);
    const auto timer = std::move(closing_);
    if (done) {
      done(cut_);
    }
  }

  std::shared_ptr<ServerCore> core_;
  Tcp::acceptor acceptor_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::uint16_t port_ = 0;
  std::unique_ptr<os::EventLoop::Handle> ticker_;
  std::unique_ptr<os::EventLoop::Handle> retry_;
  std::unique_ptr<os::EventLoop::Handle> deadline_;
  std::unique_ptr<os::EventLoop::Handle> closing_;
  std::function<void(std::size_t)> on_closed_;
  std::size_t cut_ = 0;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(os::EventLoop& loop,
                                               ServerOptions options,
                                               Handler handler) {
  auto server = std::make_unique<AsioServer>(loop, std::move(options), std::move(handler));
  PHALANX_RETURN_IF_ERROR(server->open());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace phalanx::http
