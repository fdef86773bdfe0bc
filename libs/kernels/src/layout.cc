// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/layout.h"

#include <algorithm>

#include "phalanx/base/check.h"

namespace phalanx::kernels {

void pack_weight_strips(tensor::MatrixView<const Bf16> from,
                        std::size_t first_column,
                        std::span<Bf16> to) {
  const std::size_t k_padded = padded_k(from.columns);
  const std::size_t strip_elements = kStripColumns * k_padded;
  PHALANX_CHECK(first_column % kStripColumns == 0, "a strip begins at a multiple of 16 columns");
  PHALANX_CHECK(strip_elements != 0 && to.size() % strip_elements == 0,
                "the packed memory is not a whole number of strips");
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

void pack_weight(tensor::MatrixView<const Bf16> from, std::span<Bf16> to) {
  PHALANX_CHECK(to.size() == packed_elements(from.rows, from.columns),
                "the packed memory does not fit the weight");
  pack_weight_strips(from, 0, to);
}

}  // namespace phalanx::kernels
