// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/matmul.h"

#include <algorithm>
#include <array>

#include "ref/entries.h"
#include "ref/int_matmul.h"
#include "scalar_math.h"

namespace phalanx::kernels::ref {

namespace {

// The pending partial sums of one row and strip: subtrees of the summation tree that wait for the
// part to their right.
class PartialSums {
 public:
  [[nodiscard]] float (&push())[kStripColumns] { return sums_[depth_++]; }

  void merge() {
    --depth_;
    for (std::size_t column = 0; column < kStripColumns; ++column) {
      sums_[depth_ - 1][column] = sums_[depth_ - 1][column] + sums_[depth_][column];
    }
  }

  [[nodiscard]] const float* pop() { return sums_[--depth_]; }

 private:
  static constexpr std::size_t kMaxDepth = 8;  // log2(kMaxLeaves) + 2
  float sums_[kMaxDepth][kStripColumns] = {};
  std::size_t depth_ = 0;
};

void one_leaf(const MatmulArgs& args,
              const MatmulLeaf& leaf,
              std::uint32_t row,
              std::uint32_t first_column,
              float (&sums)[kStripColumns]) {
  if (leaf.weight.format != WeightFormat::kBf16) {
    int_dot_strip(args.quantized, row, leaf, first_column, sums);
    return;
  }
  const Bf16* activations = args.activations + row * args.activation_stride;
  const std::uint32_t k = leaf.weight.rows;
  const std::size_t strip_bytes = weight_bytes(WeightFormat::kBf16, k, kStripColumns);
  const std::byte* strip = leaf.weight.data + strip_offset(leaf.weight, first_column, strip_bytes);
  scalar::dot_strip(activations + leaf.first_k, k, reinterpret_cast<const Bf16*>(strip), sums);
}

void one_strip(const MatmulArgs& args, std::uint32_t row, std::uint32_t first_column) {
  const std::size_t columns = std::min<std::size_t>(kStripColumns, args.columns - first_column);
  float* out = args.out + row * args.out_stride + first_column;
  PartialSums pending;
  for (std::uint32_t i = 0; i < args.leaf_count; ++i) {
    const MatmulLeaf& leaf = args.leaves[i];
    one_leaf(args, leaf, row, first_column, pending.push());
    for (std::uint32_t merge = 0; merge < leaf.merges; ++merge) {
      pending.merge();
    }
    if (leaf.emit) {
      const float* sum = pending.pop();
      for (std::size_t column = 0; column < columns; ++column) {
        out[column] =
            args.bias == nullptr ? sum[column] : sum[column] + args.bias[first_column + column];
      }
      out += args.node_stride;
    }
  }
}

}  // namespace

void matmul(const MatmulArgs& args, std::uint32_t tile) {
  const std::uint32_t row_tile_count = (args.rows + kMatmulTileRows - 1) / kMatmulTileRows;
  const std::uint32_t first_row = tile % row_tile_count * kMatmulTileRows;
  const std::uint32_t first_column = tile / row_tile_count * kMatmulTileColumns;
  const std::uint32_t end_row = std::min(first_row + kMatmulTileRows, args.rows);
  const std::uint32_t end_column = std::min(first_column + kMatmulTileColumns, args.columns);
  for (std::uint32_t row = first_row; row < end_row; ++row) {
    for (std::uint32_t column = first_column; column < end_column; column += kStripColumns) {
      one_strip(args, row, column);
    }
  }
}

}  // namespace phalanx::kernels::ref
