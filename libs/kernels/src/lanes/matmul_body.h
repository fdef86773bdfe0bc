// SPDX-License-Identifier: Apache-2.0
#pragma once

// One tile of a matrix product.

#include "phalanx/kernels/matmul.h"

#include "lanes/dot_body.h"
#include "lanes/lanes.h"

namespace phalanx::kernels {
namespace {

inline constexpr std::size_t kTileStrips = 4;  // kMatmulTileColumns / 16
inline constexpr std::size_t kMaxDepth = 8;    // pending subtrees: log2(kMaxLeaves) + 2
inline constexpr std::size_t kRowGap = 16;     // keeps rows off the same cache sets
// Widened activations stay in the L1 cache while every strip of the tile passes over them.
inline constexpr std::size_t kWideFloats = 4096;
inline constexpr std::ptrdiff_t kPrefetchElements = 640;  // 1280 bytes ahead

// Some rows against the strips of a tile. Its buffers are not initialised: they are large.
template <std::size_t kRows>
class RowBlock {
 public:
  RowBlock(const MatmulArgs& args,
           std::uint32_t first_row,
           std::uint32_t first_column,
           std::size_t strips)
      : args_(args), first_row_(first_row), first_column_(first_column), strips_(strips) {}

  void add_leaf(const MatmulLeaf& leaf) {
    for (std::size_t s = 0; s < strips_; ++s) {
      for (std::size_t r = 0; r < kRows; ++r) {
        f_store(sums_[s][depth_] + r * 16, f_set(0.0F));
      }
    }
    const std::size_t padded = (std::size_t{leaf.weight.rows} + 31) / 32 * 32;
    const auto* weight = reinterpret_cast<const std::uint16_t*>(leaf.weight.data);
    for (std::size_t k = 0; k < padded; k += kChunk) {
      const std::size_t chunk = padded - k < kChunk ? padded - k : kChunk;
      widen_rows(leaf, k, chunk);
      add_strips<kRows>(wide_,
                        kStride,
                        {weight + first_column_ * padded + k * 16, padded * 16, kPrefetchElements},
                        strips_,
                        chunk,
                        {sums_[0][depth_], 16, kMaxDepth * kRows * 16});
    }
    ++depth_;
  }

  void merge() {
    --depth_;
    for (std::size_t s = 0; s < strips_; ++s) {
      for (std::size_t r = 0; r < kRows; ++r) {
        float* lower = sums_[s][depth_ - 1] + r * 16;
        f_store(lower, f_load(lower) + f_load(sums_[s][depth_] + r * 16));
      }
    }
  }

  void emit(float* out) {
    --depth_;
    for (std::size_t s = 0; s < strips_; ++s) {
      const std::size_t column = first_column_ + s * 16;
      const std::size_t left = args_.columns - column;
      for (std::size_t r = 0; r < kRows; ++r) {
        F16 sum = f_load(sums_[s][depth_] + r * 16);
        if (args_.bias != nullptr) {
          sum = sum + f_load_first(args_.bias + column, left);
        }
        f_store_first(out + (first_row_ + r) * args_.out_stride + column, sum, left);
      }
    }
  }

 private:
  static constexpr std::size_t kChunk = kWideFloats / kRows / 32 * 32;
  static constexpr std::size_t kStride = kChunk + kRowGap;

  void widen_rows(const MatmulLeaf& leaf, std::size_t k, std::size_t chunk) {
    const std::size_t valid = leaf.weight.rows - k < chunk ? leaf.weight.rows - k : chunk;
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto* row = reinterpret_cast<const std::uint16_t*>(
          args_.activations + (first_row_ + r) * args_.activation_stride);
      widen(row + leaf.first_k + k, valid, wide_ + r * kStride, chunk);
    }
  }

  const MatmulArgs& args_;
  std::size_t first_row_;
  std::size_t first_column_;
  std::size_t strips_;
  std::size_t depth_ = 0;
  alignas(64) float wide_[kRows * kStride];
  // Partial sums of each strip: a stack of subtrees waiting for the part to their right.
  alignas(64) float sums_[kTileStrips][kMaxDepth][kRows * 16];
};

template <std::size_t kRows>
[[gnu::noinline]] void run_rows(const MatmulArgs& args,
                                std::uint32_t first_row,
                                std::uint32_t first_column,
                                std::size_t strips) {
  RowBlock<kRows> block(args, first_row, first_column, strips);
  float* out = args.out;
  for (std::uint32_t i = 0; i < args.leaf_count; ++i) {
    const MatmulLeaf& leaf = args.leaves[i];
    block.add_leaf(leaf);
    for (std::uint32_t merge = 0; merge < leaf.merges; ++merge) {
      block.merge();
    }
    if (leaf.emit) {
      block.emit(out);
      out += args.node_stride;
    }
  }
}

template <std::size_t kRows>
void run_some_rows(std::uint32_t rows,
                   const MatmulArgs& args,
                   std::uint32_t first_row,
                   std::uint32_t first_column,
                   std::size_t strips) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      run_some_rows<kRows - 1>(rows, args, first_row, first_column, strips);
      return;
    }
  }
  run_rows<kRows>(args, first_row, first_column, strips);
}

inline void matmul_tile(const MatmulArgs& args, std::uint32_t tile) {
  const std::uint32_t column_tiles = (args.columns + kMatmulTileColumns - 1) / kMatmulTileColumns;
  const std::uint32_t first_row = tile / column_tiles * kMatmulTileRows;
  const std::uint32_t first_column = tile % column_tiles * kMatmulTileColumns;
  const std::uint32_t rows_left = args.rows - first_row;
  const std::uint32_t end_row =
      first_row + (rows_left < kMatmulTileRows ? rows_left : kMatmulTileRows);
  const std::size_t columns_left = (args.columns - first_column + 15) / 16;
  const std::size_t strips = columns_left < kTileStrips ? columns_left : kTileStrips;
  for (std::uint32_t row = first_row; row < end_row; row += kMaxBlockRows) {
    run_some_rows<kMaxBlockRows>(end_row - row, args, row, first_column, strips);
  }
}

}  // namespace
}  // namespace phalanx::kernels
