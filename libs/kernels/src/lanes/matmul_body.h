// SPDX-License-Identifier: Apache-2.0
#pragma once

// One tile of a matrix product.

#include "phalanx/kernels/matmul.h"

#include "lanes/dot_body.h"
#include "lanes/int_matmul_body.h"
#include "lanes/lanes.h"
#include "lanes/panel_body.h"
#include "lanes/tile_body.h"

namespace phalanx::kernels {
namespace {

// bf16 by bf16, in blocks of up to kRowsAtOnce rows. Its buffer is not initialised: it is large.
template <std::size_t kRowsAtOnce>
class Bf16Product {
 public:
  static constexpr std::size_t kMaxRows = kRowsAtOnce;
  static constexpr std::size_t fewer(std::size_t rows) { return rows - 1; }
  static constexpr std::size_t kStrips = kBlockStrips<kMaxRows>;

  static constexpr std::size_t kFewRows = kMaxRows < 4 ? kMaxRows : 4;  // of one block

  // 32 KB of weights, and 6 KB of activations as floats. Few rows pass over weights once: as much
  // of K as there is room for, so that memory is read without a gap.
  static PanelSize panel_size(std::size_t rows, std::size_t /*padded*/) {
    return {kTileStrips, rows <= kFewRows ? kRoomK / rows / 32 * 32 : kPanelK};
  }

  Bf16Product(const MatmulArgs& args, const TilePart& part) : args_(args), part_(part) {}

  static StripPlaces places(const MatmulLeaf& leaf, const TilePart& part, std::size_t padded) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(leaf.weight.data);
    return {first + strip_offset(leaf.weight, part.first_column, padded * 32), padded * 32, 0, 32};
  }

  void begin_leaf(const MatmulLeaf& /*leaf*/, TileSums& pending) {
    pending.clear_next(part_.strips, part_.rows);
  }
  void end_leaf(const MatmulLeaf& /*leaf*/, TileSums& /*pending*/) {}

  void begin_panel(const Panel& /*panel*/) {}

  void fetch_rows(const Panel& panel, std::size_t first_row, std::size_t rows) const {
    for (std::size_t r = 0; r < rows; ++r) {
      const auto* row =
          args_.activations + (part_.first_row + first_row + r) * args_.activation_stride;
      fetch_all(row + panel.leaf->first_k + panel.k, panel.chunk * 2);
    }
  }

  template <std::size_t kRows>
  [[gnu::noinline]] void add(const Panel& panel,
                             std::size_t first_row,
                             std::size_t /*rows*/,
                             TileSums& pending,
                             FetchLater& fetch) {
    const MatmulLeaf& leaf = *panel.leaf;
    const std::size_t left = leaf.weight.rows - panel.k;
    const std::size_t valid = left < panel.chunk ? left : panel.chunk;
    const bool is_few = part_.rows <= kFewRows;
    const std::size_t stride = is_few ? panel.chunk + kRowGap : kStride;
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto* row = reinterpret_cast<const std::uint16_t*>(
          args_.activations + (part_.first_row + first_row + r) * args_.activation_stride);
      widen(row + leaf.first_k + panel.k, valid, wide_ + r * stride, panel.chunk);
    }
    Strips<std::uint16_t> strips{
        reinterpret_cast<const std::uint16_t*>(panel.places.at(panel.first_strip, panel.k)),
        panel.padded * 16};
    StripSums sums{pending.next(panel.first_strip) + first_row * 16, 16, TileSums::kStripFloats};
    if (!is_few) {
      add_strips<kRows>(wide_, kStride, strips, panel.strips, panel.chunk, sums, fetch);
    } else if constexpr (kRows <= kFewRows) {
      // Few rows are a matter of memory: a strip is read from its beginning to its end.
      for (std::size_t s = 0; s < panel.strips; ++s) {
        add_dots<kRows, 1>(wide_, stride, strips, panel.chunk, sums, fetch);
        strips.first += strips.stride;
        sums.first += sums.strip_stride;
      }
    }
  }

 private:
  static constexpr std::size_t kPanelK = 256;
  static constexpr std::size_t kStride = kPanelK + kRowGap;
  static constexpr std::size_t kRoomK = 8192;  // of all rows
  static_assert(kRoomK + kFewRows * kRowGap >= kMaxRows * kStride);

  const MatmulArgs& args_;
  const TilePart& part_;
  alignas(64) float wide_[kRoomK + kFewRows * kRowGap];
};

template <std::size_t kRowsAtOnce>
void matmul_tile(const MatmulArgs& args, std::uint32_t tile) {
  const TilePart whole = whole_tile(args, tile);
  if (args.leaves[0].weight.format == WeightFormat::kBf16) {
    run_block<PanelTile<Bf16Product<kRowsAtOnce>>>(args, whole);
  } else {
    int_matmul_tile(args, whole);
  }
}

}  // namespace
}  // namespace phalanx::kernels
