// SPDX-License-Identifier: Apache-2.0
#pragma once

// Products whose sums stay in tile registers for a whole leaf: bf16, and int8 with scales of
// leaves on both sides.

#include "phalanx/kernels/matmul.h"

#include "amx/tile_step.h"
#include "lanes/int_leaf_body.h"
#include "lanes/tile_body.h"

namespace phalanx::kernels {
namespace {

// The first `count` ≤ 64 bytes, and zeros up to 64.
PHALANX_LANES void copy_first(std::byte* to, const std::byte* from, std::size_t count) {
  const __mmask64 mask = count == 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1;
  _mm512_storeu_si512(to, _mm512_maskz_loadu_epi8(mask, from));
}

// The rows of a part against its strips. Rows are read where they lie: as many of a tile as there
// are, in steps of 64 bytes. What is left of K after the last whole step is copied and filled with
// zeros. Full blocks have 4 tiles of rows, others 1 or 2. Its buffers are not initialised.
template <typename Tiles, TileDot kDot, std::size_t kRowTiles>
class LeafTiles {
 public:
  static constexpr std::size_t kBlockRows = kRowTiles * kTileRegisterRows;

  LeafTiles(const MatmulArgs& args, const TilePart& part)
      : args_(args), part_(part), tiles_(tile_shape(part.rows, kTileRegisterBytes)) {}

  void add_leaf(const MatmulLeaf& leaf, PendingSums<kBlockRows>& pending) {
    if (part_.rows < kBlockRows) {
      pending.clear_next(part_.strips, kBlockRows);  // only rows that there are get sums
    }
    const TileOperands from = operands(leaf);
    const std::size_t k_bytes = row_bytes(leaf);
    take_tail(from, k_bytes);
    std::size_t s = 0;
    for (; s + 2 <= part_.strips; s += 2) {
      add_columns<2>(from, k_bytes, s, pending);
    }
    if (s < part_.strips) {
      add_columns<1>(from, k_bytes, s, pending);
    }
    if constexpr (kDot == TileDot::kInt8) {
      scale_sums(leaf, pending);
    }
  }

 private:
  static constexpr bool kIsInt = kDot == TileDot::kInt8;
  static constexpr int kRows = kRowTiles == 1 ? 1 : 2;  // tiles at once
  static constexpr std::size_t kStepBytes = 1024;       // of a strip

  // Bytes of a row in the leaf: those of its elements, integers with their padding.
  [[nodiscard]] static std::size_t row_bytes(const MatmulLeaf& leaf) {
    const std::size_t k = leaf.weight.rows;
    return kIsInt ? (k + 31) / 32 * 32 : 2 * k;
  }

  [[nodiscard]] TileOperands operands(const MatmulLeaf& leaf) const {
    const std::size_t padded = (std::size_t{leaf.weight.rows} + 31) / 32 * 32;
    if constexpr (kIsInt) {
      const QuantizedRows& rows = args_.quantized;
      const std::size_t first = part_.first_row * rows.code_stride + leaf.first_k;
      constexpr IntDot kWhole = IntDot::kInt8Whole;
      const std::uint8_t* strip = strip_at<kWhole>(leaf, part_, padded, 0);
      return {reinterpret_cast<const std::byte*>(rows.codes + first),
              rows.code_stride,
              reinterpret_cast<const std::byte*>(strip + scale_bytes<kWhole>(padded)),
              strip_bytes<kWhole>(padded)};
    } else {
      const std::size_t first = part_.first_row * args_.activation_stride + leaf.first_k;
      return {reinterpret_cast<const std::byte*>(args_.activations + first),
              args_.activation_stride * 2,
              leaf.weight.data + strip_offset(leaf.weight, part_.first_column, padded * 32),
              padded * 32};
    }
  }

  void take_tail(const TileOperands& from, std::size_t k_bytes) {
    const std::size_t whole = k_bytes / kTileRegisterBytes;
    const std::size_t left = k_bytes % kTileRegisterBytes;
    if (left == 0) {
      return;
    }
    for (std::size_t r = 0; r < part_.rows; ++r) {
      copy_first(tail_rows_ + r * kTileRegisterBytes,
                 from.rows + r * from.row_stride + whole * kTileRegisterBytes,
                 left);
    }
    if constexpr (kIsInt) {
      // Half a step, which may be the end of the memory. Strips of bf16 are padded to whole ones.
      for (std::size_t s = 0; s < part_.strips; ++s) {
        const std::byte* codes = from.columns + s * from.strip_stride + whole * kStepBytes;
        std::byte* to = tail_columns_ + s * kStepBytes;
        for (std::size_t at = 0; at < kStepBytes / 2; at += 64) {
          copy_first(to + at, codes + at, 64);
          copy_first(to + kStepBytes / 2 + at, codes + at, 0);
        }
      }
    }
  }

  // All rows of the part against strips s … s + kColumns − 1.
  template <int kColumns>
  void add_columns(const TileOperands& from,
                   std::size_t k_bytes,
                   std::size_t s,
                   PendingSums<kBlockRows>& pending) {
    TileOperands tiles = from;
    tiles.columns += s * from.strip_stride;
    for (std::size_t tile = 0; tile < kRowTiles; tile += 2) {
      float* to = pending.next(s) + tile * kTileRegisterRows * 16;
      zero_sums<kRows, kColumns>(tiles_);
      // Only the first rows wait for memory.
      add_steps<kColumns>(tiles, k_bytes / kTileRegisterBytes, tile == 0);
      if (k_bytes % kTileRegisterBytes != 0) {
        add_tail<kColumns>(tiles, k_bytes / kTileRegisterBytes, tile, s);
      }
      store_sums<kRows, kColumns>(tiles_,
                                  reinterpret_cast<std::byte*>(to),
                                  PendingSums<kBlockRows>::kStripFloats * sizeof(float));
      tiles.rows += 2 * kTileRegisterRows * from.row_stride;
    }
  }

  template <int kColumns>
  void add_steps(TileOperands from, std::size_t steps, bool prefetches) {
    for (std::size_t step = 0; step < steps; ++step) {
      if (prefetches) {
        prefetch_strips<kColumns>(from, kStepBytes);
      }
      add_step<kDot, kRows, kColumns>(tiles_, from);
      from.rows += kTileRegisterBytes;
      from.columns += kStepBytes;
    }
  }

  template <int kColumns>
  void add_tail(const TileOperands& from, std::size_t whole, std::size_t tile, std::size_t s) {
    const std::byte* rows = tail_rows_ + tile * kTileRegisterRows * kTileRegisterBytes;
    if constexpr (kIsInt) {
      const std::byte* columns = tail_columns_ + s * kStepBytes;
      add_step<kDot, kRows, kColumns>(tiles_, {rows, kTileRegisterBytes, columns, kStepBytes});
    } else {
      const std::byte* columns = from.columns + whole * kStepBytes;
      add_step<kDot, kRows, kColumns>(tiles_,
                                      {rows, kTileRegisterBytes, columns, from.strip_stride});
    }
  }

  // Of integers: sums with their bias become sums times the scales of the leaf.
  void scale_sums(const MatmulLeaf& leaf, PendingSums<kBlockRows>& pending) {
    const QuantizedRows& rows = args_.quantized;
    const std::size_t padded = row_bytes(leaf);
    for (std::size_t r = 0; r < part_.rows; ++r) {
      const std::size_t first = block_at(rows, part_, r, leaf.first_k);
      const I16 start = i_set(static_cast<std::uint32_t>(whole_start(rows, first, padded)));
      const F16 scale = f_set(rows.scales[first]);
      for (std::size_t s = 0; s < part_.strips; ++s) {
        const std::uint8_t* strip = strip_at<IntDot::kInt8Whole>(leaf, part_, padded, s);
        const F16 of_columns = f_load(reinterpret_cast<const float*>(strip));
        float* sums = pending.next(s) + r * 16;
        const I16 sum = i_bits(f_load(sums)) + start;
        f_store(sums, f_of_signed(sum) * scale * of_columns);
      }
    }
  }

  const MatmulArgs& args_;
  const TilePart& part_;
  Tiles tiles_;
  alignas(64) std::byte tail_rows_[kBlockRows * kTileRegisterBytes];
  alignas(64) std::byte tail_columns_[kIsInt ? kTileStrips * kStepBytes : 1];
};

}  // namespace
}  // namespace phalanx::kernels
