// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "phalanx/kernels/layout.h"

namespace phalanx::kernels::ref {

// Where a row of the input of a matrix product goes: rounded to bf16, or as it is for weights of
// integers.
struct RowOut {
  Bf16* narrow;  // null: wide
  float* wide;
  std::size_t offset;

  void store(std::size_t i, float value) const {
    if (narrow != nullptr) {
      narrow[offset + i] = tensor::to_bf16(value);
    } else {
      wide[offset + i] = value;
    }
  }
};

}  // namespace phalanx::kernels::ref
