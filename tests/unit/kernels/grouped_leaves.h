// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <vector>

#include "phalanx/kernels/matmul.h"

#include "integer_inputs.h"

namespace phalanx::kernels {

// The leaves of a product as weight arenas have them: 64 columns of all leaves, then the next 64.
class GroupedLeaves {
 public:
  explicit GroupedLeaves(std::vector<MatmulLeaf> leaves)
      : leaves_(std::move(leaves)), memory_(groups() * stride()) {
    std::size_t before = 0;
    for (MatmulLeaf& leaf : leaves_) {
      std::byte* to = memory_.bytes().data() + before;
      before += weight_bytes(leaf.weight.format, leaf.weight.rows, kGroupColumns);
      copy(leaf.weight, to);
      leaf.weight.data = to;
      leaf.weight.group_stride = memory_.bytes().size() / groups();
    }
  }

  [[nodiscard]] const std::vector<MatmulLeaf>& leaves() const { return leaves_; }

 private:
  [[nodiscard]] std::size_t groups() const {
    return (leaves_[0].weight.columns + kGroupColumns - 1) / kGroupColumns;
  }
  [[nodiscard]] std::size_t stride() const {
    std::size_t bytes = 0;
    for (const MatmulLeaf& leaf : leaves_) {
      bytes += weight_bytes(leaf.weight.format, leaf.weight.rows, kGroupColumns);
    }
    return bytes;
  }
  void copy(const WeightView& weight, std::byte* to) const {
    const std::byte* from = weight.data;
    for (std::size_t column = 0; column < weight.columns; column += kGroupColumns) {
      const std::size_t columns = std::min<std::size_t>(kGroupColumns, weight.columns - column);
      const std::size_t bytes = weight_bytes(weight.format, weight.rows, columns);
      std::memcpy(to, from, bytes);
      from += bytes;
      to += stride();
    }
  }

  std::vector<MatmulLeaf> leaves_;
  PackedBytes memory_;
};

}  // namespace phalanx::kernels
