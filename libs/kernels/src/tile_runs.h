// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

namespace phalanx::kernels {

// The tiles of one job, divided among threads: everyone has a contiguous run and takes from its
// beginning, because a stream of weights is read fastest from its beginning to its end; who has
// none left takes the last tile of the longest run that somebody else still has.
//
// Threads: reset() while no other thread looks, and what makes the job known publishes it; take()
// from all threads at once. Every tile is given to exactly one of them.
class TileRuns {
 public:
  explicit TileRuns(std::uint32_t threads)
      : runs_(std::make_unique<Run[]>(threads)), threads_(threads) {}

  void reset(std::uint32_t tiles) {
    const std::uint64_t count = tiles;
    for (std::uint64_t thread = 0; thread < threads_; ++thread) {
      const Range range{static_cast<std::uint32_t>(count * thread / threads_),
                        static_cast<std::uint32_t>(count * (thread + 1) / threads_)};
      runs_[thread].range.store(range, std::memory_order_relaxed);
    }
  }

  // The next tile of `thread`, own or another's. Nothing: every tile is taken.
  [[nodiscard]] std::optional<std::uint32_t> take(std::uint32_t thread) {
    std::atomic<Range>& own = runs_[thread].range;
    Range range = own.load(std::memory_order_relaxed);
    while (range.first < range.end) {
      if (own.compare_exchange_weak(
              range, {range.first + 1, range.end}, std::memory_order_relaxed)) {
        return range.first;
      }
    }
    return take_from_others();
  }

 private:
  struct alignas(8) Range {
    std::uint32_t first;
    std::uint32_t end;

    [[nodiscard]] std::uint32_t left() const { return end - first; }
  };
  // A line of its own: its thread writes it for each tile.
  struct alignas(64) Run {
    std::atomic<Range> range{Range{0, 0}};
  };
  static_assert(std::atomic<Range>::is_always_lock_free);

  [[nodiscard]] std::optional<std::uint32_t> take_from_others() {
    while (true) {
      std::atomic<Range>* longest = nullptr;
      Range range{0, 0};
      for (std::uint32_t thread = 0; thread < threads_; ++thread) {
        const Range other = runs_[thread].range.load(std::memory_order_relaxed);
        if (other.left() > range.left()) {
          longest = &runs_[thread].range;
          range = other;
        }
      }
      if (longest == nullptr) {
        return std::nullopt;
      }
      if (longest->compare_exchange_strong(
              range, {range.first, range.end - 1}, std::memory_order_relaxed)) {
        return range.end - 1;
      }
    }
  }

  std::unique_ptr<Run[]> runs_;
  std::uint32_t threads_;
};

}  // namespace phalanx::kernels
