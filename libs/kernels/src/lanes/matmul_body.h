// SPDX-License-Identifier: Apache-2.0
#pragma once

// One tile of a matrix product.

#include "phalanx/kernels/matmul.h"

#include "lanes/dot_body.h"
#include "lanes/int_matmul_body.h"
#include "lanes/lanes.h"
#include "lanes/tile_body.h"

namespace phalanx::kernels {
namespace {

// Widened activations stay in the L1 cache while every strip of the tile passes over them.
inline constexpr std::size_t kWideFloats = 4096;

// Some rows of bf16 against the strips of a tile. Its buffer is not initialised: it is large.
template <std::size_t kRows>
class RowBlock {
 public:
  static constexpr std::size_t kBlockRows = kRows;

  RowBlock(const MatmulArgs& args, const TilePart& part) : args_(args), part_(part) {}

  void add_leaf(const MatmulLeaf& leaf, PendingSums<kRows>& pending) {
    pending.clear_next(part_.strips);
    const std::size_t padded = (std::size_t{leaf.weight.rows} + 31) / 32 * 32;
    const auto* weight = reinterpret_cast<const std::uint16_t*>(leaf.weight.data);
    for (std::size_t k = 0; k < padded; k += kChunk) {
      const std::size_t chunk = padded - k < kChunk ? padded - k : kChunk;
      widen_rows(leaf, k, chunk);
      const Strips<std::uint16_t> strips{
          weight + part_.first_column * padded + k * 16,
          padded * 16,
          kPrefetchBytes / static_cast<std::ptrdiff_t>(sizeof(std::uint16_t))};
      add_strips<kRows>(wide_,
                        kStride,
                        strips,
                        part_.strips,
                        chunk,
                        {pending.next(0), 16, PendingSums<kRows>::kStripFloats});
    }
  }

 private:
  static constexpr std::size_t kChunk = kWideFloats / kRows / 32 * 32;
  static constexpr std::size_t kStride = kChunk + kRowGap;

  void widen_rows(const MatmulLeaf& leaf, std::size_t k, std::size_t chunk) {
    const std::size_t valid = leaf.weight.rows - k < chunk ? leaf.weight.rows - k : chunk;
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto* row = reinterpret_cast<const std::uint16_t*>(
          args_.activations + (part_.first_row + r) * args_.activation_stride);
      widen(row + leaf.first_k + k, valid, wide_ + r * kStride, chunk);
    }
  }

  const MatmulArgs& args_;
  const TilePart& part_;
  alignas(64) float wide_[kRows * kStride];
};

// As many rows as part.rows says; at most kRows.
template <std::size_t kRows>
void run_some_rows(const MatmulArgs& args, const TilePart& part) {
  if constexpr (kRows > 1) {
    if (part.rows < kRows) {
      run_some_rows<kRows - 1>(args, part);
      return;
    }
  }
  run_block<RowBlock<kRows>>(args, part);
}

inline void matmul_part(const MatmulArgs& args, const TilePart& whole) {
  if (args.leaves[0].weight.format != WeightFormat::kBf16) {
    int_matmul_tile(args, whole);
    return;
  }
  for (std::size_t row = 0; row < whole.rows; row += kMaxBlockRows) {
    TilePart part = whole;
    part.first_row += row;
    part.rows = whole.rows - row < kMaxBlockRows ? whole.rows - row : kMaxBlockRows;
    run_some_rows<kMaxBlockRows>(args, part);
  }
}

inline void matmul_tile(const MatmulArgs& args, std::uint32_t tile) {
  matmul_part(args, whole_tile(args, tile));
}

}  // namespace
}  // namespace phalanx::kernels
