// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "phalanx/kernels/thread_team.h"

namespace phalanx::kernels {

// The tiles of one job after the other, divided among threads: everyone has a contiguous run and
// takes from its beginning, because a stream of weights is read fastest from its beginning to its
// end; who has none left takes the last tile of the longest run that somebody else still has.
//
// To take a tile is to be counted in: a job ends when as many tiles are finished as it has, and the
// next is not published before. So whoever takes a tile, however late it looks, takes one of the
// job that is under way, and the body beside it is that job's.
//
// A line that another core has written takes some 25 ns to come, and 160 from a group of cores with
// a cache of its own (Zen 4). So what a thread has to know of a job lies in one line: it waits on
// it, finds its run and body there, and says there what it has finished; and nobody waits for a
// line of another's but at the beginning and at the end.
//
// Threads: publish(), wait_until_finished() and quit() by one, which is thread 0; the others wait
// for tiles of theirs; take() and finish() by all at once. Every tile is given to exactly one.
class TileRuns {
 public:
  struct Tile {
    std::uint32_t index;
    TileBody body;
  };

  explicit TileRuns(std::uint32_t threads)
      : runs_(std::make_unique<Run[]>(threads)), threads_(threads) {}

  // Makes a job known, and wakes those who sleep. Requires that the last one is finished.
  void publish(std::uint32_t tiles, TileBody body) {
    given_ += tiles;
    const std::uint64_t count = tiles;
    for (std::uint64_t thread = 0; thread < threads_; ++thread) {
      Run& run = runs_[thread];
      run.body = body;
      run.object.store(body.object(), std::memory_order_relaxed);
      const Range range{static_cast<std::uint32_t>(count * thread / threads_),
                        static_cast<std::uint32_t>(count * (thread + 1) / threads_)};
      run.range.store(range, std::memory_order_release);
    }
    full_fence();
    wake_others();
  }

  // The next tile of `thread`, own or another's. Nothing: every tile is taken.
  [[nodiscard]] std::optional<Tile> take(std::uint32_t thread) {
    Run& own = runs_[thread];
    Range range = own.range.load(std::memory_order_relaxed);
    while (range.first < range.end) {
      if (own.range.compare_exchange_weak(
              range, {range.first + 1, range.end}, std::memory_order_acquire)) {
        return Tile{range.first, own.body};
      }
    }
    return take_from_others();
  }

  // A tile that `thread` took is done.
  void finish(std::uint32_t thread) {
    std::atomic<std::uint32_t>& finished = runs_[thread].finished;
    finished.store(finished.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  // Waits until the job is finished: each tile, whoever took it. What its bodies have written is
  // visible then.
  void wait_until_finished() {
    wait(first_asleep_, [this] { return all_finished(); });
  }

  // Of another than thread 0, when it finds no tile: waits for a run of its own. False: it is time
  // to quit.
  [[nodiscard]] bool wait_for_tiles(std::uint32_t thread) {
    full_fence();
    wake(first_asleep_);
    Run& own = runs_[thread];
    wait(own.asleep, [&] { return has_tiles(own) || quit_.load(std::memory_order_acquire); });
    // On its way while the tile is taken.
    _mm_prefetch(static_cast<const char*>(own.object.load(std::memory_order_relaxed)), _MM_HINT_T0);
    return !quit_.load(std::memory_order_relaxed);
  }

  void quit() {
    quit_.store(true, std::memory_order_release);
    full_fence();
    wake_others();
  }

 private:
  struct alignas(8) Range {
    std::uint32_t first;
    std::uint32_t end;

    [[nodiscard]] std::uint32_t left() const { return end - first; }
  };
  struct alignas(64) Run {
    std::atomic<Range> range{Range{0, 0}};
    TileBody body;                             // of thread 0, until a tile is taken
    std::atomic<const void*> object{nullptr};  // the body's
    std::atomic<std::uint32_t> finished{0};  // tiles that this thread took, of all jobs, modulo 2³²
    std::atomic<std::uint32_t> asleep{0};
  };
  static_assert(std::atomic<Range>::is_always_lock_free);
  static_assert(sizeof(Run) == 64);

  // Longer than most gaps between two jobs, and than the last tile of a thread lasts when a few
  // sequences decode. To be woken takes 8 µs and more.
  static constexpr std::chrono::microseconds kSpin{30};
  static constexpr int kPausesAtOnce = 16;  // between two looks at the clock

  // Who says that it sleeps and then looks once more; who does what is waited for and then looks
  // who sleeps: with a fence between the two, one of them sees the other. No data are ordered by
  // it, so it is nothing to ThreadSanitizer, which does not know fences: g++ says so, clang++ does
  // not know the warning.
  static void full_fence() {
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wtsan"
#endif
    std::atomic_thread_fence(std::memory_order_seq_cst);
#pragma GCC diagnostic pop
  }

  [[nodiscard]] static bool has_tiles(const Run& run) {
    const Range range = run.range.load(std::memory_order_relaxed);
    return range.first < range.end;
  }

  [[nodiscard]] bool all_finished() const {
    std::uint32_t sum = 0;
    for (std::uint32_t thread = 0; thread < threads_; ++thread) {
      sum += runs_[thread].finished.load(std::memory_order_acquire);
    }
    return sum == given_;
  }

  template <typename Condition>
  [[nodiscard]] static bool spin(const Condition& is_over) {
    for (int pause = 0; pause < kPausesAtOnce; ++pause) {
      if (is_over()) {
        return true;
      }
      _mm_pause();
    }
    return false;
  }

  // Waits until `is_over`, spinning first. Who brings it about calls wake() afterwards.
  template <typename Condition>
  static void wait(std::atomic<std::uint32_t>& asleep, const Condition& is_over) {
    while (!spin(is_over)) {
      const auto end = std::chrono::steady_clock::now() + kSpin;
      while (std::chrono::steady_clock::now() < end) {
        if (spin(is_over)) {
          return;
        }
      }
      asleep.store(1, std::memory_order_relaxed);
      full_fence();
      if (!is_over()) {
        asleep.wait(1, std::memory_order_relaxed);
      }
      asleep.store(0, std::memory_order_relaxed);
    }
  }

  static void wake(std::atomic<std::uint32_t>& asleep) {
    // exchange(): notify_one() asks whether anybody waits, and must not ask before the store.
    if (asleep.load(std::memory_order_relaxed) != 0 &&
        asleep.exchange(0, std::memory_order_seq_cst) != 0) {
      asleep.notify_one();
    }
  }

  void wake_others() {
    for (std::uint32_t thread = 1; thread < threads_; ++thread) {
      wake(runs_[thread].asleep);
    }
  }

  [[nodiscard]] std::optional<Tile> take_from_others() {
    while (true) {
      Run* longest = nullptr;
      Range range{0, 0};
      for (std::uint32_t thread = 0; thread < threads_; ++thread) {
        const Range other = runs_[thread].range.load(std::memory_order_relaxed);
        if (other.left() > range.left()) {
          longest = &runs_[thread];
          range = other;
        }
      }
      if (longest == nullptr) {
        return std::nullopt;
      }
      if (longest->range.compare_exchange_strong(
              range, {range.first, range.end - 1}, std::memory_order_acquire)) {
        return Tile{range.end - 1, longest->body};
      }
    }
  }

  std::unique_ptr<Run[]> runs_;
  std::uint32_t threads_;
  std::atomic<bool> quit_{false};
  std::uint32_t given_ = 0;  // tiles of all jobs, modulo 2³²; thread 0's
  alignas(64) std::atomic<std::uint32_t> first_asleep_{0};
};

}  // namespace phalanx::kernels
