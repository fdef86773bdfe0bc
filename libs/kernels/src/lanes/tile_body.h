// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tiles of all matrix products share: how a tile lies in the product and how its leaves
// become nodes.

#include "phalanx/kernels/matmul.h"

#include "lanes/lanes.h"

namespace phalanx::kernels {
namespace {

inline constexpr std::size_t kTileStrips = 4;  // kMatmulTileColumns / 16
inline constexpr std::size_t kMaxDepth = 8;    // pending subtrees: log2(kMaxLeaves) + 2
inline constexpr std::size_t kRowGap = 16;     // keeps rows off the same cache sets

// Rows and strips of a product, within one tile.
struct TilePart {
  std::size_t first_row;
  std::size_t rows;
  std::size_t first_column;
  std::size_t strips;
  std::size_t gap = 0;  // columns between the first half of the strips and the second
  DataPath path = DataPath::kWhole;

  [[nodiscard]] PHALANX_LANES std::size_t column(std::size_t strip) const {
    return first_column + strip * 16 + (strip < strips / 2 ? 0 : gap);
  }
};

PHALANX_LANES TilePart whole_tile(const MatmulArgs& args, std::uint32_t tile) {
  const std::uint32_t row_tile_count = (args.rows + kMatmulTileRows - 1) / kMatmulTileRows;
  const std::uint32_t first_row = tile % row_tile_count * kMatmulTileRows;
  const std::uint32_t first_column = tile / row_tile_count * kMatmulTileColumns;
  const std::size_t rows_left = args.rows - first_row;
  const std::size_t strips_left = (args.columns - first_column + 15) / 16;
  return {first_row,
          rows_left < kMatmulTileRows ? rows_left : kMatmulTileRows,
          first_column,
          strips_left < kTileStrips ? strips_left : kTileStrips};
}

// Tiles of another shape, as many: two strips of the left half of the columns and two of the right.
// Whoever takes them in their order reads two streams of weights, which go on from tile to tile.
//
// Requires: splits_in_halves(args); one tile of rows.
PHALANX_LANES TilePart tile_of_halves(const MatmulArgs& args, std::uint32_t tile) {
  constexpr std::size_t kHalfColumns = kMatmulTileColumns / 2;
  return {0, args.rows, tile * kHalfColumns, kTileStrips, args.columns / 2 - kHalfColumns};
}
PHALANX_LANES bool splits_in_halves(const MatmulArgs& args) {
  return args.leaf_count == 1 && args.leaves[0].weight.group_stride == 0 &&
         args.columns % kMatmulTileColumns == 0;
}

// From the data of a weight to the strip of `column`, the first of a tile.
PHALANX_LANES std::size_t strip_offset(const WeightView& weight,
                                       std::size_t column,
                                       std::size_t strip_bytes) {
  return weight.group_stride == 0 ? column / 16 * strip_bytes
                                  : column / kGroupColumns * weight.group_stride;
}

// Partial sums of up to kRows rows and each strip: a stack of subtrees waiting for the part to
// their right. They are not initialised.
template <std::size_t kRows, std::size_t kStrips = kTileStrips>
class PendingSums {
 public:
  static constexpr std::size_t kStripFloats = kRows * 16 + kRowGap;    // from strip to strip
  static constexpr std::size_t kLevelFloats = kStrips * kStripFloats;  // to what was pushed next

  // The sums [kRows][16] of the next leaf of a strip, until it is pushed.
  [[nodiscard]] float* next(std::size_t strip) { return sums_[depth_] + strip * kStripFloats; }
  // Those that were pushed last.
  [[nodiscard]] float* last(std::size_t strip) { return sums_[depth_ - 1] + strip * kStripFloats; }
  void clear_next(std::size_t strips, std::size_t rows) {
    for (std::size_t s = 0; s < strips; ++s) {
      for (std::size_t r = 0; r < rows; ++r) {
        f_store(next(s) + r * 16, f_set(0.0F));
      }
    }
  }
  void push() { ++depth_; }
  void pop() { --depth_; }
  // As push() and so many merges, where the caller adds the numbers up.
  void merge_into_next(std::uint32_t merges) { depth_ += std::size_t{1} - merges; }

  void merge(std::size_t strips, std::size_t rows) {
    --depth_;
    float* lower = sums_[depth_ - 1];
    const float* upper = sums_[depth_];
    for (std::size_t s = 0; s < strips; ++s) {
      for (std::size_t r = 0; r < rows; ++r) {
        f_store(lower + r * 16, f_load(lower + r * 16) + f_load(upper + r * 16));
      }
      lower += kStripFloats;
      upper += kStripFloats;
    }
  }

  // Writes the top, of the rows that there are. Row by row: lines that lie together are written
  // together.
  void emit(const MatmulArgs& args, const TilePart& part, float* out) {
    --depth_;
    for (std::size_t r = 0; r < part.rows; ++r) {
      const float* sums = sums_[depth_] + r * 16;
      float* row = out + (part.first_row + r) * args.out_stride;
      for (std::size_t s = 0; s < part.strips; ++s) {
        const std::size_t column = part.column(s);
        const std::size_t left = args.columns - column;
        F16 sum = f_load(sums + s * kStripFloats);
        if (args.bias != nullptr) {
          sum = sum + f_load_first(args.bias + column, left);
        }
        // A store of some lanes takes Zen 4 as long as several of all.
        if (left >= 16) {
          f_store(row + column, sum);
        } else {
          f_store_first(row + column, sum, left);
        }
      }
    }
  }

 private:
  std::size_t depth_ = 0;
  alignas(64) float sums_[kMaxDepth][kLevelFloats];
};

using TileSums = PendingSums<kMatmulTileRows>;

// All leaves of some rows, up to Block::kBlockRows. `Block` adds a leaf to the pending sums of its
// rows: as the next ones, or to those that it merges with.
template <typename Block>
[[gnu::noinline]] void run_block(const MatmulArgs& args, const TilePart& part) {
  Block block(args, part);
  PendingSums<Block::kBlockRows> pending;
  float* out = args.out;
  for (std::uint32_t i = 0; i < args.leaf_count; ++i) {
    const MatmulLeaf& leaf = args.leaves[i];
    block.add_leaf(leaf, pending);
    if (block.merges_leaves()) {
      pending.merge_into_next(leaf.merges);
    } else {
      pending.push();
      for (std::uint32_t merge = 0; merge < leaf.merges; ++merge) {
        pending.merge(part.strips, part.rows);
      }
    }
    if (leaf.emit) {
      pending.emit(args, part, out);
      out += args.node_stride;
    }
  }
}

}  // namespace
}  // namespace phalanx::kernels
