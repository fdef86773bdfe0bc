// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/kernels/weight.h"

namespace phalanx::kernels {

// pack_weight_strips() for a format of integers.
[[nodiscard]] Status pack_codes(tensor::MatrixView<const Bf16> from,
                                std::size_t first_column,
                                WeightFormat format,
                                std::span<std::byte> to);

}  // namespace phalanx::kernels
