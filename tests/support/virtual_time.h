// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "phalanx/base/clock.h"

#include "support/faulty_transport.h"

namespace phalanx::testing {

// The one clock of a simulated world: it moves a millisecond at a time, when the test says so.
class VirtualTime final : public Clock {
 public:
  [[nodiscard]] SteadyTime now() const override {
    return SteadyTime(std::chrono::seconds(1000) + std::chrono::milliseconds(millis_));
  }
  [[nodiscard]] Millis millis() const { return millis_; }
  void pass(Millis millis = 1) { millis_ += millis; }

 private:
  Millis millis_ = 0;
};

}  // namespace phalanx::testing
