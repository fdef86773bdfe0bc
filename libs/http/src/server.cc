// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/server.h"

#include <algorithm>
#include <random>
#include <vector>

#include "address_key.h"
#include "asio.h"
#include "connection.h"
#include "server_core.h"

namespace phalanx::http {
namespace {

// Connections beyond the limit that are told so; past them, the door is just shut.
constexpr std::size_t kRefusedConnectionsMax = 256;

// How long an answer that is ended at the deadline may take to reach its client.
constexpr Duration kLastWordsTime = std::chrono::seconds(1);

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
    PHALANX_TRY(
        core_->access,
        AccessPolicy::create(
            is_loopback(address), core_->options.allowed_hosts, core_->options.allowed_origins));
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

  void close(Duration deadline,
             std::function<void()> on_deadline,
             std::function<void(std::size_t)> done) override {
    stop_accepting();
    close_idle();
    on_deadline_ = std::move(on_deadline);
    on_closed_ = std::move(done);
    deadline_ = core_->loop.call_after(deadline, [this] { end_answers(); });
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
      core_->loop.name_callback("http accept");
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
    SystemError error;
    const Tcp::endpoint peer = socket.remote_endpoint(error);
    const std::string reason = error ? "" : refusal_of(peer.address());
    if (error || (!reason.empty() && core_->refused >= kRefusedConnectionsMax)) {
      ++core_->counters.connections_refused;
      return;
    }
    auto connection = std::make_shared<Connection>(core_, std::move(socket));
    core_->connections.insert(connection);
    if (!reason.empty()) {
      connection->start_refused(reason);
    } else {
      ++core_->counters.connections_accepted;
      connection->start();
    }
  }

  // Why no further connection of this address is served; empty if one is.
  [[nodiscard]] std::string refusal_of(const asio::ip::address& address) const {
    const std::size_t limit = core_->options.connections_max;
    if (core_->connections.size() - core_->refused >= limit) {
      return "the server has its " + std::to_string(limit) + " connections; try again later";
    }
    std::size_t share = core_->options.connections_per_address_max;
    if (share == 0) {
      if (is_loopback(address)) {
        return "";
      }
      share = std::max<std::size_t>(limit / 4, 1);
    }
    const auto place = core_->connections_of.find(address_key(address));
    if (place == core_->connections_of.end() || place->second < share) {
      return "";
    }
    return "your address has its " + std::to_string(share) +
           " connections (--max-connections-per-address); use fewer, or try again later";
  }

  void tick() {
    core_->loop.name_callback("http tick");
    const SteadyTime now = steady_clock().now();
    for (const auto& connection : snapshot()) {
      connection->tick(now);
    }
  }

  void end_answers() {
    cut_ = core_->exchanges;
    if (const auto tell = std::exchange(on_deadline_, nullptr)) {
      tell();
    }
    for (const auto& connection : snapshot()) {
      connection->end_awaited();
    }
    deadline_ = core_->loop.call_after(kLastWordsTime, [this] {
      for (const auto& connection : snapshot()) {
        connection->abort();
      }
    });
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
  std::function<void()> on_deadline_;
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
