// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "phalanx/base/clock.h"

namespace phalanx::supervise {

// Between two ticks of who watches processes. What it waits for is counted in ticks that came on
// time, so more frequent ones would end patience early.
inline constexpr Duration kTickPeriod = std::chrono::milliseconds(100);

}  // namespace phalanx::supervise
