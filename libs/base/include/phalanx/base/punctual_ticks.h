// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "phalanx/base/clock.h"

namespace phalanx {

// Which ticks of a watcher say that the watched one had the time that lies between two of them. One
// that comes on time does. One that comes late does not, since a watcher that was held up may have
// been stopped together with what it watches; but of those every eighth does, so that one that is
// always late takes longer and still finds what hangs.
//
// Threads: one.
class PunctualTicks {
 public:
  explicit PunctualTicks(Duration period) : period_(period) {}

  // A tick came. The first one counts as late.
  [[nodiscard]] bool counts(SteadyTime now) {
    const Duration since = now - last_;
    last_ = now;
    if (since < 2 * period_) {
      return true;
    }
    late_ = (late_ + 1) % kLateTicks;
    return late_ == 0;
  }

 private:
  static constexpr std::uint32_t kLateTicks = 8;

  Duration period_;
  SteadyTime last_{};
  std::uint32_t late_ = 0;  // that no count stands for yet
};

}  // namespace phalanx
