// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>

#include "phalanx/base/clock.h"

namespace phalanx {

// CPU time that the calling thread has used; what it waits costs nothing of it.
[[nodiscard]] inline Duration thread_cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// A bound on the CPU time of one piece of work on one thread. Asking is cheap enough for every few
// steps: the clock of the thread is read only once the work has also taken that long by the wall.
class CpuTimeLimit {
 public:
  explicit CpuTimeLimit(Duration limit) : CpuTimeLimit(limit, thread_cpu_time()) {}
  // For work that began when the thread had used `begin`.
  CpuTimeLimit(Duration limit, Duration begin)
      : limit_(limit), wall_end_(steady_clock().now() + limit), begin_(begin) {}

  [[nodiscard]] Duration limit() const { return limit_; }

  [[nodiscard]] bool passed() const {
    return steady_clock().now() >= wall_end_ && thread_cpu_time() - begin_ >= limit_;
  }

 private:
  Duration limit_;
  SteadyTime wall_end_;
  Duration begin_;
};

}  // namespace phalanx
