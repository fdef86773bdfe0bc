// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "phalanx/base/clock.h"

namespace phalanx::test {

// A clock that stands still until the test turns its hands. Starts well after zero, so that
// "earlier" exists.
// Threads: one.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] SteadyTime now() const override { return now_; }
  void advance(Duration duration) { now_ += duration; }
  void set(SteadyTime now) { now_ = now; }

 private:
  SteadyTime now_{std::chrono::hours(1)};
};

}  // namespace phalanx::test
