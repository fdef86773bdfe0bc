// SPDX-License-Identifier: Apache-2.0
#include "sim_host.h"

#include <algorithm>
#include <thread>

namespace phalanx::worker {

Status GroupSimHost::wait(Duration duration) {
  // Short slices, because an abort must be answered within about a millisecond.
  constexpr Duration kSlice = std::chrono::milliseconds(1);
  const SteadyTime end = steady_clock().now() + duration;
  for (;;) {
    if (group_.aborted()) {
      return aborted("the group was told to stop");
    }
    progress_.fetch_add(1, std::memory_order_relaxed);
    const Duration left = end - steady_clock().now();
    if (left <= Duration::zero()) {
      return ok();
    }
    std::this_thread::sleep_for(std::min(left, kSlice));
  }
}

}  // namespace phalanx::worker
