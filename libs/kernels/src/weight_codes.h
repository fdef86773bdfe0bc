// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/kernels/weight.h"

#include "packed_codes.h"

namespace phalanx::kernels {

// Codes one column, and the scale or scales of it: docs/arithmetic.md, "Integer formats". Padding
// is left as it is. Requires a format from floats; as many finite elements as the strip has rows.
void code_column(const PackedStrip<std::byte>& strip,
                 std::size_t column,
                 std::span<const Bf16> elements);

// pack_weight_strips() for a format of integers.
[[nodiscard]] Status pack_codes(tensor::MatrixView<const Bf16> from,
                                std::size_t first_column,
                                WeightFormat format,
                                std::span<std::byte> to);

}  // namespace phalanx::kernels
