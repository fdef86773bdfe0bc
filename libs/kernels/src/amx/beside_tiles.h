// SPDX-License-Identifier: Apache-2.0
#pragma once

// Lanes that work beside tiles. For some 400 cycles after a tile instruction, whichever it is, a
// core has one multiplier for 512 bits instead of two: products, conversions, maxima and scaling
// take twice as long, sums, integers and selections as long as ever (measured on Granite Rapids).

#include "lanes/lanes.h"

namespace phalanx::kernels {
namespace {

// As f_of_signed(), without the multiplier. Requires −2^22 ≤ x < 2^22.
PHALANX_LANES F16 f_of_small(I16 x) {
  const F16 shift = f_set(0x1.8p23F);
  return f_bits(x + i_bits(shift)) - shift;
}

}  // namespace
}  // namespace phalanx::kernels
