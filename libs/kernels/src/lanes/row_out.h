// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where a row of the input of a matrix product goes.

#include "phalanx/kernels/layout.h"

#include "lanes/lanes.h"
#include "lanes/math_body.h"

namespace phalanx::kernels {
namespace {

// Rounded to bf16, or as it is for weights of integers.
struct RowOut {
  RowOut(Bf16* to_narrow, float* to_wide, std::size_t offset)
      : narrow(to_narrow == nullptr ? nullptr
                                    : reinterpret_cast<std::uint16_t*>(to_narrow + offset)),
        wide(to_narrow == nullptr ? to_wide + offset : nullptr) {}

  // Elements i … i + 15, the first `count` of them.
  PHALANX_LANES void store(std::size_t i, F16 values, std::size_t count) const {
    if (narrow != nullptr) {
      b_store(narrow + i, b_nearest(values), count);
    } else {
      f_store_first(wide + i, values, count);
    }
  }

  std::uint16_t* narrow;
  float* wide;
};

}  // namespace
}  // namespace phalanx::kernels
