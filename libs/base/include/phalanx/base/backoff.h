// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "phalanx/base/clock.h"

namespace phalanx {

struct BackoffOptions {
  Duration first = std::chrono::milliseconds(100);
  Duration cap = std::chrono::seconds(10);
  double jitter = 0.2;  // each delay is multiplied by a factor in [1 - jitter, 1 + jitter]
};

// Delays before the next attempt: first, 2·first, 4·first … up to cap, each with jitter.
// Deterministic in its seed.
// Threads: one at a time.
class Backoff {
 public:
  Backoff(BackoffOptions options, std::uint64_t seed);

  // The delay to wait now; the following one is twice as long, up to the cap.
  [[nodiscard]] Duration next();

  // After a success: the next delay is `first` again.
  void reset() { failures_ = 0; }

  [[nodiscard]] int failures() const { return failures_; }

 private:
  BackoffOptions options_;
  std::uint64_t state_;
  int failures_ = 0;
};

}  // namespace phalanx
