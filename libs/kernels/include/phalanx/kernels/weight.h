// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "phalanx/base/result.h"
#include "phalanx/kernels/layout.h"

namespace phalanx::kernels {

// How a packed weight is encoded. The values are part of the keys of weight arenas.
enum class WeightFormat : std::uint8_t {
  kBf16 = 1,  // [columns/16][padded_k(rows)/2][16][2] bf16, without scales
};

// Bytes of a packed weight of `columns` outputs and `rows` inputs.
[[nodiscard]] std::size_t weight_bytes(WeightFormat format, std::size_t rows, std::size_t columns);

// A packed weight as kernels read it. Kernels take format and sizes for granted: they are checked
// once, where a program is built (check_matmul(), check_embedding()).
// Ownership: borrows.
struct WeightView {
  WeightFormat format = WeightFormat::kBf16;
  std::uint32_t rows = 0;           // inputs (K); zeros are added up to a multiple of 32
  std::uint32_t columns = 0;        // outputs; the rest of the last strip is padding
  const std::byte* data = nullptr;  // 64-byte aligned, weight_bytes(format, rows, columns)
  const float* scales = nullptr;    // null: the format has none
};

// Whether it is a weight that kernels can read; `data` may still be null.
//
// Errors: kInvalidArgument  what was expected and what was found
[[nodiscard]] Status check_weight(const WeightView& weight);

// Packs columns [first_column, first_column + 16 · n) of a weight into a packed weight whose first
// strip is to[0]; n = to.size() / weight_bytes(format, from.columns, 16). Padding columns and the
// padding along K are zeros; denormals become zeros and NaNs kBf16Nan.
//
//   from  [columns, k]  bf16, row-major: row = output column, as in a checkpoint
//
// Requires: first_column a multiple of 16; to.size() a whole number of strips.
// Cost:     a range of strips is a unit of work, so that a caller can spread a weight over threads.
void pack_weight_strips(tensor::MatrixView<const Bf16> from,
                        std::size_t first_column,
                        WeightFormat format,
                        std::span<std::byte> to);

// The whole weight. Requires to.size() == weight_bytes(format, from.columns, from.rows).
void pack_weight(tensor::MatrixView<const Bf16> from, WeightFormat format, std::span<std::byte> to);

}  // namespace phalanx::kernels
