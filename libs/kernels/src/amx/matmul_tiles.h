// SPDX-License-Identifier: Apache-2.0
#pragma once

// One tile of a matrix product, by tile registers or, for few rows, by lanes.

#include "phalanx/kernels/matmul.h"

#include "amx/group_tiles.h"
#include "amx/leaf_tiles.h"
#include "lanes/matmul_body.h"
#include "tables.h"

namespace phalanx::kernels {
namespace {

// Calls run.operator()<kRowTiles>(part) for blocks of the rows: of 64, which use a tile of weights
// twice from the cache and unpack codes once for all, or else of up to 32 and up to 16.
template <typename Run>
void for_row_tiles(const TilePart& whole, const Run& run) {
  TilePart part = whole;
  for (std::size_t row = 0; row < whole.rows; row += part.rows) {
    const std::size_t left = whole.rows - row;
    part.first_row = whole.first_row + row;
    if (left >= 4 * kTileRegisterRows) {
      part.rows = 4 * kTileRegisterRows;
      run.template operator()<4>(part);
    } else if (left > kTileRegisterRows) {
      part.rows = left < 2 * kTileRegisterRows ? left : 2 * kTileRegisterRows;
      run.template operator()<2>(part);
    } else {
      part.rows = left;
      run.template operator()<1>(part);
    }
  }
}

// By tiles, however few the rows are.
template <typename Tiles>
void multiply_by_tiles(const MatmulArgs& args, const TilePart& whole) {
  if (args.leaves[0].weight.format == WeightFormat::kBf16) {
    multiply_leaves<Tiles, TileDot::kBf16>(args, whole);
    return;
  }
  dispatch_int_dot(args, [&]<IntDot kDot>() {
    if constexpr (kDot == IntDot::kInt8Whole) {
      multiply_leaves<Tiles, TileDot::kInt8>(args, whole);
    } else {
      for_row_tiles(whole, [&]<std::size_t kRowTiles>(const TilePart& part) {
        run_block<GroupTiles<Tiles, kDot, kRowTiles>>(args, part);
      });
    }
  });
}

// Few rows go to the lanes, whose bits are the same: up to so many are faster there, where a block
// of lanes reads weights once from memory and waits for it, and a tile instruction takes as long
// for them as for 16 rows. The golden vectors have more rows, so a processor whose tiles compute
// something else does not have the arithmetic version.
inline constexpr std::size_t kFewRows = 3;  // of bf16
inline constexpr std::size_t kFewIntRows = 8;

template <typename Tiles>
void amx_matmul_tile(const MatmulArgs& args, std::uint32_t tile) {
  const TilePart whole = whole_tile(args, tile);
  const bool is_bf16 = args.leaves[0].weight.format == WeightFormat::kBf16;
  if (whole.rows <= (is_bf16 ? kFewRows : kFewIntRows)) {
    avx512vnni_table().matmul(args, tile);
  } else {
    multiply_by_tiles<Tiles>(args, whole);
  }
}

}  // namespace
}  // namespace phalanx::kernels
