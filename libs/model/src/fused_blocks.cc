// SPDX-License-Identifier: Apache-2.0
#include "fused_blocks.h"

#include <algorithm>
#include <span>

namespace phalanx::model {

FusedBlock block_of(const ColumnGroups& groups,
                    std::uint32_t rows,
                    std::uint32_t most_rows,
                    std::uint32_t tile) {
  const std::uint32_t row_blocks = (rows + most_rows - 1) / most_rows;
  const std::uint32_t index = tile % row_blocks;
  const std::uint32_t first_row = index * most_rows;
  return {first_row,
          std::min(most_rows, rows - first_row),
          groups.runs[tile / row_blocks],
          index,
          row_blocks};
}

std::uint32_t fused_tiles(const ColumnGroups& groups, std::uint32_t rows) {
  return (rows + kFusedRows - 1) / kFusedRows * groups.count;
}

std::uint32_t widest(const ColumnGroups& groups) {
  std::uint32_t columns = 0;
  for (const Run& run : std::span(groups.runs, groups.count)) {
    columns = std::max(columns, run.count);
  }
  return columns;
}

kernels::QuantizedRows rows_from(kernels::QuantizedRows rows,
                                 std::size_t first_row,
                                 std::size_t first_code) {
  const std::size_t at = first_row * rows.code_stride + first_code;
  rows.codes += at;
  rows.sums += at / kernels::kDotBlock;
  rows.scales += at / kernels::kDotBlock;
  return rows;
}

void multiply_block(const TaskRuntime& runtime,
                    const kernels::MatmulArgs& product,
                    const FusedBlock& block,
                    float* out,
                    std::uint32_t thread) {
  kernels::MatmulLeaf leaf = product.leaves[0];
  const auto* weights = static_cast<const std::byte*>(leaf.weight.data);
  leaf.weight.data =
      weights + kernels::weight_bytes(leaf.weight.format, leaf.weight.rows, block.columns.first);
  leaf.weight.columns = block.columns.count;
  kernels::MatmulArgs args = product;
  args.leaves = &leaf;
  args.rows = block.rows;
  args.row_run = block.index;
  args.row_runs = block.count;
  args.ahead = runtime.ahead_of(thread);
  args.columns = block.columns.count;
  args.out = out;
  args.out_stride = block.columns.count;
  if (args.bias != nullptr) {
    args.bias += block.columns.first;
  }
  if (args.activations != nullptr) {
    args.activations += block.first_row * args.activation_stride;
  } else {
    args.quantized = rows_from(args.quantized, block.first_row, 0);
  }
  for (std::uint32_t tile = 0; tile < kernels::matmul_tiles(args); ++tile) {
    runtime.kernels->matmul(args, tile);
  }
}

}  // namespace phalanx::model
