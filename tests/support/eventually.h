// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

#include "phalanx/base/clock.h"

namespace phalanx::test {

// Waits until `condition()` holds, at most `limit`; whether it held in the end. For conditions of
// other processes that nothing announces; the test asserts on the result.
template <typename Condition>
[[nodiscard]] bool eventually(const Condition& condition, Duration limit) {
  const SteadyTime deadline = steady_clock().now() + limit;
  while (!condition()) {
    if (steady_clock().now() >= deadline) {
      return condition();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace phalanx::test
