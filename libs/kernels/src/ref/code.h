// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace phalanx::kernels::ref {

// The integer nearest to x · inverse, ties to even, by adding and taking away 1.5 · 2^23.
// Requires a result of an int8.
[[nodiscard]] inline std::int8_t code_of(float x, float inverse) {
  constexpr float kRound = 0x1.8p23F;
  return static_cast<std::int8_t>((x * inverse + kRound) - kRound);
}

}  // namespace phalanx::kernels::ref
