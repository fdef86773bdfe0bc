// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/server.h"

#include <sys/socket.h>

#include <algorithm>
#include <deque>
#include <random>
#include <utility>
#include <vector>

#include "asio.h"
#include "connection.h"
#include "server_core.h"

namespace phalanx::http {
namespace {

// How long an answer that is ended by end_answers() may take to reach its client.
constexpr Duration kLastWordsTime = std::chrono::seconds(1);

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
      : core_(std::make_shared<ServerCore>(loop, std::move(options), std::move(handler))) {
    std::random_device random;
    core_->next_request_id = (std::uint64_t{random()} << 32U) | random();
    core_->memory.on_room([core = core_.get()] {
      post_while_alive(core->shared_from_this(), [core] {
        core->loop.name_callback("clients that waited for memory");
        core->memory.go_on_some();
      });
    });
  }
  AsioServer(const AsioServer&) = delete;
  AsioServer& operator=(const AsioServer&) = delete;

  ~AsioServer() override {
    core_->destroyed = true;
    core_->handler = nullptr;
    core_->to_flush.clear();
    for (const auto& connection : snapshot()) {
      connection->discard();
    }
  }

  Status open() {
    const ServerOptions& options = core_->options;
    PHALANX_TRY(
        core_->access,
        AccessPolicy::create(options.on_loopback, options.allowed_hosts, options.allowed_origins));
    ticker_ = core_->loop.call_every(tick_period(options), [this] { tick(); });
    return ok();
  }

  void adopt(os::UniqueFd socket, ConnectionInfo info) override {
    Tcp::socket adopted(core_->loop.io());
    SystemError error;
    // Of which family it is matters only to those who ask it for addresses. What is assigned counts
    // as duplicated for Asio, so that the loop forgets it although it stays open elsewhere.
    adopted.assign(Tcp::v4(), socket.get(), error);
    if (error) {
      ::shutdown(socket.get(), SHUT_RDWR);
      socket.reset();
      report_closed(core_, info.id);
      return;
    }
    static_cast<void>(socket.release());
    auto connection = std::make_shared<Connection>(core_, std::move(adopted), std::move(info));
    core_->connections.insert(connection);
    connection->start();
    if (core_->ending) {
      end_awaited(connection);
    }
    if (core_->draining) {
      connection->close_when_idle();
    } else if (core_->releasing) {
      connection->release_at_rest();
    }
  }

  void release_all() override {
    core_->releasing = true;
    for (const auto& connection : snapshot()) {
      connection->release_at_rest();
    }
  }

  void close_idle() override {
    core_->draining = true;
    for (const auto& connection : snapshot()) {
      connection->close_when_idle();
    }
  }

  void end_answers() override {
    core_->ending = true;
    for (const auto& connection : snapshot()) {
      end_awaited(connection);
    }
  }

  [[nodiscard]] std::size_t connections() const override { return core_->connections.size(); }
  [[nodiscard]] std::size_t memory_bytes() const override { return core_->memory.held(); }
  [[nodiscard]] const ServerCounters& counters() const override { return core_->counters; }

 private:
  [[nodiscard]] std::vector<std::shared_ptr<Connection>> snapshot() const {
    return {core_->connections.begin(), core_->connections.end()};
  }

  void tick() {
    core_->loop.name_callback("http tick");
    const SteadyTime now = steady_clock().now();
    const Duration unseen = now - std::exchange(ticked_, now);
    for (const auto& connection : snapshot()) {
      if (unseen > RunningClock::kMostUnseen) {
        connection->postpone(unseen);
      }
      connection->tick(now);
    }
  }

  // Each has its own time: one that comes late gives the others no more.
  void end_awaited(const std::shared_ptr<Connection>& connection) {
    connection->end_awaited();
    to_cut_.emplace_back(steady_clock().now() + kLastWordsTime, connection);
    if (!cutting_) {
      cut_later(kLastWordsTime);
    }
  }

  void cut_later(Duration wait) {
    cutting_ = core_->loop.call_after(wait, [this] { cut_due(); });
  }

  void cut_due() {
    core_->loop.name_callback("answers that are cut");
    const SteadyTime now = steady_clock().now();
    for (; !to_cut_.empty() && to_cut_.front().first <= now; to_cut_.pop_front()) {
      if (const auto connection = to_cut_.front().second.lock()) {
        connection->abort();
      }
    }
    cutting_.reset();
    if (!to_cut_.empty()) {
      cut_later(to_cut_.front().first - now);
    }
  }

  std::shared_ptr<ServerCore> core_;
  std::unique_ptr<os::EventLoop::Handle> ticker_;
  SteadyTime ticked_ = steady_clock().now();
  std::deque<std::pair<SteadyTime, std::weak_ptr<Connection>>> to_cut_;  // by their time
  std::unique_ptr<os::EventLoop::Handle> cutting_;                       // while there are some
};

}  // namespace

Result<std::unique_ptr<Server>> Server::create(os::EventLoop& loop,
                                               ServerOptions options,
                                               Handler handler) {
  auto server = std::make_unique<AsioServer>(loop, std::move(options), std::move(handler));
  PHALANX_RETURN_IF_ERROR(server->open());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace phalanx::http
