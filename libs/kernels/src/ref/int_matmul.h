// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/kernels/matmul.h"

namespace phalanx::kernels::ref {

// From the data of a weight to the strip of `column`, a multiple of 16.
[[nodiscard]] std::size_t strip_offset(const WeightView& weight,
                                       std::size_t column,
                                       std::size_t strip_bytes);

// a · b + c rounded once, for any three numbers, in the float mode.
[[nodiscard]] float fused(float a, float b, float c);

// sums[c] = one leaf of integers of one row and column first_column + c.
void int_dot_strip(const QuantizedRows& rows,
                   std::uint32_t row,
                   const MatmulLeaf& leaf,
                   std::uint32_t first_column,
                   float (&sums)[kStripColumns]);

}  // namespace phalanx::kernels::ref
