// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/weight.h"

#include <algorithm>
#include <string>

#include "phalanx/base/check.h"

namespace phalanx::kernels {

namespace {

void pack_bf16(tensor::MatrixView<const Bf16> from, std::size_t first_column, std::span<Bf16> to) {
  const std::size_t k_padded = padded_k(from.columns);
  std::fill(to.begin(), to.end(), Bf16{});
  const std::size_t columns = to.size() / k_padded;
  for (std::size_t c = 0; c < columns && first_column + c < from.rows; ++c) {
    const Bf16* row = from.row(first_column + c);
    Bf16* strip = to.data() + packed_index(c, 0, k_padded);
    for (std::size_t k = 0; k < from.columns; ++k) {
      strip[(k / 2) * kStripColumns * 2 + k % 2] = tensor::canonical(row[k]);
    }
  }
}

}  // namespace

std::size_t weight_bytes(WeightFormat format, std::size_t rows, std::size_t columns) {
  switch (format) {
    case WeightFormat::kBf16:
      return packed_elements(columns, rows) * sizeof(Bf16);
  }
  PHALANX_CHECK(false, "not a weight format");
  return 0;
}

Status check_weight(const WeightView& weight) {
  if (weight.rows == 0 || weight.columns == 0) {
    return invalid_argument("weight: expected inputs and outputs, found " +
                            std::to_string(weight.rows) + " × " + std::to_string(weight.columns));
  }
  if (weight.format != WeightFormat::kBf16) {
    return invalid_argument("weight: expected bf16, found format " +
                            std::to_string(static_cast<unsigned>(weight.format)));
  }
  if (weight.scales != nullptr) {
    return invalid_argument("weight: expected bf16 without scales, found scales");
  }
  return ok();
}

void pack_weight_strips(tensor::MatrixView<const Bf16> from,
                        std::size_t first_column,
                        WeightFormat format,
                        std::span<std::byte> to) {
  const std::size_t strip_bytes = weight_bytes(format, from.columns, kStripColumns);
  PHALANX_CHECK(first_column % kStripColumns == 0, "a strip begins at a multiple of 16 columns");
  PHALANX_CHECK(strip_bytes != 0 && to.size() % strip_bytes == 0,
                "the packed memory is not a whole number of strips");
  switch (format) {
    case WeightFormat::kBf16:
      pack_bf16(from, first_column, {reinterpret_cast<Bf16*>(to.data()), to.size() / sizeof(Bf16)});
      return;
  }
}

void pack_weight(tensor::MatrixView<const Bf16> from,
                 WeightFormat format,
                 std::span<std::byte> to) {
  PHALANX_CHECK(to.size() == weight_bytes(format, from.columns, from.rows),
                "the packed memory does not fit the weight");
  pack_weight_strips(from, 0, format, to);
}

}  // namespace phalanx::kernels
