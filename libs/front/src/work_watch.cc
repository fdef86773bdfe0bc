// SPDX-License-Identifier: Apache-2.0
#include "phalanx/front/work_watch.h"

#include <utility>

#include "phalanx/base/check.h"

namespace phalanx::front {

void WorkWatch::begin(std::size_t thread, std::uint64_t connection) {
  PHALANX_CHECK(thread < work_.size(), "a thread without a place");
  Work& work = work_[thread];
  work.connection.store(connection, std::memory_order_relaxed);
  work.begun.fetch_add(1, std::memory_order_release);
}

void WorkWatch::end(std::size_t thread) {
  PHALANX_CHECK(thread < work_.size(), "a thread without a place");
  work_[thread].ended.fetch_add(1, std::memory_order_release);
}

std::optional<std::uint64_t> WorkWatch::tick(SteadyTime now) {
  const bool counts = ticks_.counts(now);
  std::optional<std::uint64_t> stuck;
  for (Work& work : work_) {
    const std::uint64_t begun = work.begun.load(std::memory_order_acquire);
    const bool is_under_way = work.ended.load(std::memory_order_acquire) != begun;
    if (!is_under_way || std::exchange(work.seen, begun) != begun) {
      work.ticks = 0;
      continue;
    }
    work.ticks += counts ? 1U : 0U;
    if (work.ticks >= max_ticks_) {
      stuck = work.connection.load(std::memory_order_relaxed);
    }
  }
  return stuck;
}

}  // namespace phalanx::front
