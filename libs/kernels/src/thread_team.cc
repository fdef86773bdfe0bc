// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/thread_team.h"

#include <xmmintrin.h>

#include <algorithm>
#include <atomic>
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

constexpr int kSpinPauses = 400;  // some 10 to 50 µs: longer than the gap between two stages

// Waits until `word` is no longer `old`, spinning first: the kernel's wake-up costs more than most
// gaps last.
std::uint32_t wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t old) {
  for (int pause = 0; pause < kSpinPauses; ++pause) {
    const std::uint32_t value = word.load(std::memory_order_acquire);
    if (value != old) {
      return value;
    }
    _mm_pause();
  }
  word.wait(old, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
}

Status pin(int cpu) {
  if (cpu < 0) {
    return invalid_argument("cpu " + std::to_string(cpu) + " does not exist");
  }
  const Status pinned = os::pin_current_thread({static_cast<std::uint32_t>(cpu)});
  return pinned ? ok() : invalid_argument(pinned.error().message());
}

}  // namespace

// One job at a time. The caller writes the job, opens `gate` and bumps `generation`, which wakes
// the workers; each enters, runs its part and leaves. When no tile is left to take, the caller
// closes the gate and waits for those inside. So a job is never written while a worker may read it,
// and a worker that the kernel has not let run yet holds nobody up: it finds the gate closed, or
// enters the next job. Its counters have cache lines of their own.
struct ThreadTeam::Shared {
  Shared(std::uint32_t thread_count, TeamHooks given_hooks)
      : hooks(given_hooks), size(thread_count), runs(thread_count) {}

  TeamHooks hooks;
  std::vector<int> cpus;  // one per thread, or empty: not pinned
  std::uint32_t size;
  std::vector<std::thread> threads;

  TileRuns runs;
  const TileBody* body = nullptr;
  std::atomic<bool> stopped{false};  // should_stop() was true during this job
  std::atomic<bool> quit{false};     // read by a worker that is late for the last job, too

  static constexpr std::uint32_t kClosed = std::uint32_t{1} << 31;
  alignas(64) std::atomic<std::uint32_t> generation{0};
  alignas(64) std::atomic<std::uint32_t> gate{kClosed};  // kClosed, and how many workers are inside

  std::mutex pin_mutex;
  Status pinned;  // of a worker thread that could not be

  [[nodiscard]] bool run_tile(std::uint32_t tile, std::uint32_t thread) {
    if (hooks.should_stop != nullptr && hooks.should_stop(hooks.context)) {
      stopped.store(true, std::memory_order_relaxed);
      return false;
    }
    (*body)(tile, thread);
    if (hooks.tile_finished != nullptr) {
      hooks.tile_finished(hooks.context);
    }
    return true;
  }

  void run_part(std::uint32_t thread) {
    while (const std::optional<std::uint32_t> tile = runs.take(thread)) {
      if (!run_tile(*tile, thread)) {
        return;
      }
    }
  }

  [[nodiscard]] bool enter() {
    std::uint32_t now = gate.load(std::memory_order_relaxed);
    while ((now & kClosed) == 0) {
      if (gate.compare_exchange_weak(now, now + 1, std::memory_order_acquire)) {
        return true;
      }
    }
    return false;
  }

  void leave() {
    if (gate.fetch_sub(1, std::memory_order_release) == (kClosed | 1)) {
      gate.notify_one();
    }
  }

  // Of the caller: returns when nobody is inside, and nobody can enter.
  void close() {
    std::uint32_t now = gate.fetch_or(kClosed, std::memory_order_acquire) | kClosed;
    while (now != kClosed) {
      now = wait_for_change(gate, now);
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
    leave();
    std::uint32_t seen = 0;
    while (true) {
      seen = wait_for_change(generation, seen);
      if (quit.load(std::memory_order_relaxed)) {
        return;
      }
      if (enter()) {
        run_part(thread);
        leave();
      }
    }
  }

  void publish() {
    generation.fetch_add(1, std::memory_order_release);
    generation.notify_all();
  }

  [[nodiscard]] Status start() {
    set_float_mode();
    if (!cpus.empty()) {
      PHALANX_RETURN_IF_ERROR(pin(cpus[0]));
    }
    for (std::uint32_t thread = 1; thread < size; ++thread) {
      try {
        gate.fetch_add(1, std::memory_order_relaxed);  // each is inside until it is set up
        threads.emplace_back([this, thread] { worker(thread); });
      } catch (const std::system_error& error) {
        return resource_exhausted("could not make compute thread " + std::to_string(thread) + ": " +
                                  error.what());
      }
    }
    close();
    const std::lock_guard lock(pin_mutex);
    return pinned;
  }

  void stop() {
    quit.store(true, std::memory_order_relaxed);
    publish();
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
  shared.body = &body;
  shared.stopped.store(false, std::memory_order_relaxed);
  // A job of one tile is not worth waking anybody.
  if (shared.size == 1 || tiles <= 1) {
    for (std::uint32_t tile = 0; tile < tiles && shared.run_tile(tile, 0); ++tile) {
    }
    return !shared.stopped.load(std::memory_order_relaxed);
  }
  shared.runs.reset(tiles);
  shared.gate.store(0, std::memory_order_release);
  shared.publish();
  shared.run_part(0);
  shared.close();
  return !shared.stopped.load(std::memory_order_relaxed);
}

}  // namespace phalanx::kernels
