// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/thread_team.h"

#include <algorithm>
#include <atomic>
#include <latch>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "phalanx/base/check.h"
#include "phalanx/kernels/float_mode.h"
#include "phalanx/os/cpu_set.h"

#include "tile_runs.h"

namespace phalanx::kernels {

namespace {

Status pin(int cpu) {
  if (cpu < 0) {
    return invalid_argument("cpu " + std::to_string(cpu) + " does not exist");
  }
  const Status pinned = os::pin_current_thread({static_cast<std::uint32_t>(cpu)});
  return pinned ? ok() : invalid_argument(pinned.error().message());
}

}  // namespace

struct ThreadTeam::Shared {
  Shared(std::uint32_t thread_count, TeamHooks given_hooks)
      : hooks(given_hooks), size(thread_count), runs(thread_count), setting_up(thread_count - 1) {}

  TeamHooks hooks;
  std::vector<int> cpus;  // one per thread, or empty: not pinned
  std::uint32_t size;
  std::atomic<bool> stopped{false};  // should_stop() was true during this job
  std::vector<std::thread> threads;

  TileRuns runs;

  std::latch setting_up;
  std::mutex pin_mutex;
  Status pinned;  // of a worker thread that could not be

  void run_tile(TileBody body, std::uint32_t tile, std::uint32_t thread) {
    if (stopped.load(std::memory_order_relaxed)) {
      return;
    }
    if (hooks.should_stop != nullptr && hooks.should_stop(hooks.context)) {
      stopped.store(true, std::memory_order_relaxed);
      return;
    }
    body(tile, thread);
    if (thread == 0 && hooks.tile_finished != nullptr) {
      hooks.tile_finished(hooks.context);
    }
  }

  // After a stop, too, all tiles are taken: nobody is to find one later.
  void run_part(std::uint32_t thread) {
    while (const std::optional<TileRuns::Tile> tile = runs.take(thread)) {
      run_tile(tile->body, tile->index, thread);
      runs.finish(thread);
    }
  }

  void worker(std::uint32_t thread) noexcept {
    set_float_mode();
    if (!cpus.empty()) {
      if (Status own = pin(cpus[thread]); !own) {
        const std::lock_guard lock(pin_mutex);
        pinned = std::move(own);
      }
    }
    setting_up.count_down();
    while (runs.wait_for_tiles(thread)) {
      run_part(thread);
    }
  }

  [[nodiscard]] Status start() {
    set_float_mode();
    if (!cpus.empty()) {
      PHALANX_RETURN_IF_ERROR(pin(cpus[0]));
    }
    for (std::uint32_t thread = 1; thread < size; ++thread) {
      try {
        threads.emplace_back([this, thread] { worker(thread); });
      } catch (const std::system_error& error) {
        return resource_exhausted("could not make compute thread " + std::to_string(thread) + ": " +
                                  error.what());
      }
    }
    setting_up.wait();
    const std::lock_guard lock(pin_mutex);
    return pinned;
  }

  void stop() {
    runs.quit();
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
};

ThreadTeam::ThreadTeam(std::unique_ptr<Shared> shared) : shared_(std::move(shared)) {}

ThreadTeam::~ThreadTeam() {
  shared_->stop();
}

Result<std::unique_ptr<ThreadTeam>> ThreadTeam::create(std::span<const int> cpus, TeamHooks hooks) {
  const auto size = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(cpus.size()));
  auto shared = std::make_unique<Shared>(size, hooks);
  shared->cpus.assign(cpus.begin(), cpus.end());
  std::unique_ptr<ThreadTeam> team(new ThreadTeam(std::move(shared)));
  PHALANX_RETURN_IF_ERROR(team->shared_->start());
  return team;
}

Result<std::unique_ptr<ThreadTeam>> ThreadTeam::create_unpinned(std::uint32_t size,
                                                                TeamHooks hooks) {
  PHALANX_CHECK(size >= 1, "a team has at least one thread");
  auto shared = std::make_unique<Shared>(size, hooks);
  std::unique_ptr<ThreadTeam> team(new ThreadTeam(std::move(shared)));
  PHALANX_RETURN_IF_ERROR(team->shared_->start());
  return team;
}

std::uint32_t ThreadTeam::size() const {
  return shared_->size;
}

bool ThreadTeam::parallel_for(std::uint32_t tiles, TileBody body) {
  Shared& shared = *shared_;
  if (shared.stopped.load(std::memory_order_relaxed)) {
    shared.stopped.store(false, std::memory_order_relaxed);
  }
  // A job of one tile is not worth waking anybody.
  if (shared.size == 1 || tiles <= 1) {
    for (std::uint32_t tile = 0; tile < tiles; ++tile) {
      shared.run_tile(body, tile, 0);
    }
  } else {
    shared.runs.publish(tiles, body);
    shared.run_part(0);
    shared.runs.wait_until_finished();
  }
  return !shared.stopped.load(std::memory_order_relaxed);
}

}  // namespace phalanx::kernels
