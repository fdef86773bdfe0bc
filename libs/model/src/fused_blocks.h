// SPDX-License-Identifier: Apache-2.0
// What fused tasks are made of: a block of rows and columns, and the kernels of one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "phalanx/kernels/rows.h"
#include "phalanx/model/callables.h"

#include "task_args.h"

namespace phalanx::model {

inline constexpr std::uint32_t kFusedRows = kernels::kMatmulTileRows;  // of a tile

// Some rows of some columns.
struct FusedBlock {
  std::uint32_t first_row = 0;
  std::uint32_t rows = 0;
  Run columns;
  // Of the blocks of these columns.
  std::uint32_t index = 0;
  std::uint32_t count = 1;
};

// Block `tile` of blocks of `most_rows` rows, which are numbered down the rows of each group.
[[nodiscard]] FusedBlock block_of(const ColumnGroups& groups,
                                  std::uint32_t rows,
                                  std::uint32_t most_rows,
                                  std::uint32_t tile);
[[nodiscard]] std::uint32_t fused_tiles(const ColumnGroups& groups, std::uint32_t rows);
[[nodiscard]] std::uint32_t widest(const ColumnGroups& groups);

template <typename Args>
void run_rows(void (*kernel)(const Args& args, std::uint32_t tile), const Args& args) {
  for (std::uint32_t tile = 0; tile < kernels::row_tiles(args.rows); ++tile) {
    kernel(args, tile);
  }
}

// From this row and code on; a code that begins a block, with ScaleSpan::kLeaf a leaf.
[[nodiscard]] kernels::QuantizedRows rows_from(kernels::QuantizedRows rows,
                                               std::size_t first_row,
                                               std::size_t first_code);

// The block of the product, to `out`, memory for it alone.
void multiply_block(const TaskRuntime& runtime,
                    const kernels::MatmulArgs& product,
                    const FusedBlock& block,
                    float* out,
                    std::uint32_t thread);

}  // namespace phalanx::model
