// SPDX-License-Identifier: Apache-2.0
#pragma once

// Products whose sums stay in tile registers for a whole leaf: bf16, and int8 with scales of
// leaves on both sides.

#include "phalanx/kernels/matmul.h"

#include "amx/tile_step.h"
#include "lanes/fetch_body.h"
#include "lanes/int_leaf_body.h"
#include "lanes/tile_body.h"

namespace phalanx::kernels {
namespace {

// The first `count` ≤ 64 bytes, and zeros up to 64.
PHALANX_LANES void copy_first(std::byte* to, const std::byte* from, std::size_t count) {
  const __mmask64 mask = count == 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1;
  _mm512_storeu_si512(to, _mm512_maskz_loadu_epi8(mask, from));
}

// Some rows of a tile against all its strips, in blocks of up to 2 tiles of rows and 2 strips, for
// which there are registers: the sums of leaves are still in the first cache when they are added.
// Rows are read where they lie, as many of a tile as there are, in steps of 64 bytes; what is left
// of K after the last whole step is copied and filled with zeros. What lanes do with the sums of a
// leaf waits until the tiles of the next one are under way. Its buffers are not initialised.
template <typename Tiles, TileDot kDot, int kRows>
class LeafTiles {
 public:
  static constexpr std::size_t kBlockRows = kRows * kTileRegisterRows;

  // Rows [first, end) of the tile, all of them in blocks of one size.
  LeafTiles(const MatmulArgs& args, const TilePart& tile, std::size_t first, std::size_t end)
      : args_(args),
        tile_(tile),
        first_(first),
        end_(end),
        rows_(end - first < kBlockRows ? end - first : kBlockRows),
        tiles_(tile_shape(rows_, kTileRegisterBytes)) {}

  // Rows outermost: they stay in the first cache, columns are streamed past them.
  void run() {
    for (std::size_t row = first_; row < end_; row += kBlockRows) {
      for (std::size_t s = 0; s < tile_.strips; s += kBlockStrips) {
        const std::size_t left = tile_.strips - s;
        const TilePart part{tile_.first_row + row,
                            rows_,
                            tile_.first_column + s * 16,
                            left < kBlockStrips ? left : kBlockStrips};
        add_block(part);
      }
    }
    settle();
  }

 private:
  static constexpr bool kIsInt = kDot == TileDot::kInt8;
  static constexpr std::size_t kBlockStrips = 2;
  static constexpr std::size_t kStepBytes = 1024;                // of a strip
  static constexpr std::size_t kAwakeSteps = 16;                 // less than 0.5 µs
  static constexpr std::size_t kStripNumbers = kBlockRows * 16;  // of scratch

  // Sums that are in memory, but are not yet what they will be.
  struct Waiting {
    TilePart part;
    const MatmulLeaf* leaf = nullptr;  // null: nothing waits
    bool begins_block = false;
  };
  // Numbers, `row_stride` of them from row to row.
  struct SumsOut {
    float* first;
    std::size_t row_stride;
    std::size_t strip_stride;
  };

  void add_block(const TilePart& part) {
    for (std::uint32_t i = 0; i < args_.leaf_count; ++i) {
      const Waiting sums{part, args_.leaves + i, i == 0};
      if (part.strips == 2) {
        add_leaf<2>(sums);
      } else {
        add_leaf<1>(sums);
      }
    }
  }

  template <int kColumns>
  void add_leaf(const Waiting& sums) {
    const TileOperands from = operands(*sums.leaf, sums.part);
    const std::size_t k_bytes = row_bytes(*sums.leaf);
    zero_sums<kRows, kColumns>(tiles_);
    add_steps<kColumns>(sums, from, k_bytes / kTileRegisterBytes);
    if (k_bytes % kTileRegisterBytes != 0) {
      add_tail<kColumns>(from, k_bytes);
    }
    settle();
    waiting_ = sums;
    if constexpr (kIsInt) {
      store_sums<kRows, kColumns>(tiles_,
                                  {reinterpret_cast<std::byte*>(scratch_), 64, kStripNumbers * 4});
    } else {
      const SumsOut to = sums_out(sums.part);
      store_sums<kRows, kColumns>(
          tiles_, {reinterpret_cast<std::byte*>(to.first), to.row_stride * 4, to.strip_stride * 4});
    }
  }

  // Whether a leaf is all there is, and nothing is added.
  [[nodiscard]] bool goes_straight_out(const TilePart& part) const {
    return args_.leaf_count == 1 && args_.bias == nullptr &&
           part.first_column + part.strips * 16 <= args_.columns;
  }

  [[nodiscard]] SumsOut sums_out(const TilePart& part) {
    if (goes_straight_out(part)) {
      return {
          args_.out + part.first_row * args_.out_stride + part.first_column, args_.out_stride, 16};
    }
    return {pending_.next(0), 16, PendingSums<kBlockRows>::kStripFloats};
  }

  void settle() {
    if (waiting_.leaf == nullptr) {
      return;
    }
    const TilePart& part = waiting_.part;
    const MatmulLeaf& leaf = *waiting_.leaf;
    waiting_.leaf = nullptr;
    if (goes_straight_out(part)) {
      if constexpr (kIsInt) {
        scale_sums<false>(leaf, part, sums_out(part));
      }
      return;
    }
    if (waiting_.begins_block) {
      node_ = args_.out;
    }
    std::uint32_t merges = leaf.merges;
    if (kIsInt && merges > 0) {
      scale_sums<true>(leaf, part, {pending_.last(0), 16, PendingSums<kBlockRows>::kStripFloats});
      --merges;
    } else {
      if constexpr (kIsInt) {
        scale_sums<false>(leaf, part, sums_out(part));
      }
      pending_.push();
    }
    for (; merges > 0; --merges) {
      pending_.merge(part.strips, part.rows);
    }
    if (leaf.emit) {
      pending_.emit(args_, part, node_);
      node_ += args_.node_stride;
    }
  }

  // Of a block among those of the tile.
  [[nodiscard]] std::size_t first_strip(const TilePart& part) const {
    return (part.first_column - tile_.first_column) / 16;
  }

  // Bytes of a row in the leaf: those of its elements, integers with their padding.
  [[nodiscard]] static std::size_t row_bytes(const MatmulLeaf& leaf) {
    const std::size_t k = leaf.weight.rows;
    return kIsInt ? (k + 31) / 32 * 32 : 2 * k;
  }

  [[nodiscard]] static std::size_t strip_bytes_of(const MatmulLeaf& leaf) {
    const std::size_t padded = (std::size_t{leaf.weight.rows} + 31) / 32 * 32;
    return kIsInt ? strip_bytes<IntDot::kInt8Whole>(padded) : padded * 32;
  }

  [[nodiscard]] TileOperands operands(const MatmulLeaf& leaf, const TilePart& part) const {
    const std::size_t stride = strip_bytes_of(leaf);
    const std::byte* strip = leaf.weight.data +
                             strip_offset(leaf.weight, tile_.first_column, stride) +
                             first_strip(part) * stride;
    if constexpr (kIsInt) {
      const QuantizedRows& rows = args_.quantized;
      const std::size_t padded = (std::size_t{leaf.weight.rows} + 31) / 32 * 32;
      const std::size_t first = part.first_row * rows.code_stride + leaf.first_k;
      return {reinterpret_cast<const std::byte*>(rows.codes + first),
              rows.code_stride,
              strip + scale_bytes<IntDot::kInt8Whole>(padded),
              stride};
    } else {
      const std::size_t first = part.first_row * args_.activation_stride + leaf.first_k;
      return {reinterpret_cast<const std::byte*>(args_.activations + first),
              args_.activation_stride * 2,
              strip,
              stride};
    }
  }

  // Of the columns to the right, which the same thread multiplies when it is done with all rows: as
  // much as this block takes of its own ones.
  [[nodiscard]] FetchLater fetch_during(const Waiting& sums, std::size_t steps) const {
    const TilePart& part = sums.part;
    const std::size_t row_blocks = (args_.rows + kBlockRows - 1) / kBlockRows;
    const std::size_t strip_blocks = (tile_.strips + 1) / kBlockStrips;
    const std::size_t blocks = args_.row_runs * row_blocks * strip_blocks;
    const std::size_t row_block = args_.row_run * row_blocks + part.first_row / kBlockRows;
    const std::size_t block = row_block * strip_blocks + first_strip(part) / kBlockStrips;
    const std::size_t stride = strip_bytes_of(*sums.leaf);
    const std::size_t lines = kTileStrips * stride / 64;
    const std::size_t first = lines * block / blocks;
    const std::size_t right = tile_.first_column + kMatmulTileColumns;
    const std::byte* next = sums.leaf->weight.data + strip_offset(sums.leaf->weight, right, stride);
    return FetchLater::all_of({next + first * 64, lines * (block + 1) / blocks - first, 1, 0},
                              steps,
                              CacheLevel::kSecond);
  }

  template <int kColumns>
  void add_steps(const Waiting& sums, TileOperands from, std::size_t steps) {
    if (steps == 0) {
      return;
    }
    FetchLater fetch = fetch_during(sums, steps);
    // Few rows wait for memory.
    const bool waits = args_.rows < kMatmulTileRows && sums.part.first_row == 0;
    for (std::size_t step = 0; step < steps; ++step) {
      if (waits) {
        prefetch_strips<kColumns>(from, kStepBytes);
      } else {
        fetch.block();
      }
      add_step<kDot, kRows, kColumns>(tiles_, from);
      if (step % kAwakeSteps == kAwakeSteps - 1) {
        tiles_.keep_awake(reinterpret_cast<std::byte*>(awake_));
      }
      from.rows += kTileRegisterBytes;
      from.columns += kStepBytes;
    }
  }

  template <int kColumns>
  void add_tail(const TileOperands& from, std::size_t k_bytes) {
    const std::size_t whole = k_bytes / kTileRegisterBytes;
    alignas(64) std::byte rows[kBlockRows * kTileRegisterBytes];
    for (std::size_t r = 0; r < rows_; ++r) {
      copy_first(rows + r * kTileRegisterBytes,
                 from.rows + r * from.row_stride + whole * kTileRegisterBytes,
                 k_bytes % kTileRegisterBytes);
    }
    const std::byte* columns = from.columns + whole * kStepBytes;
    if constexpr (kIsInt) {
      // Half a step, which may be the end of the memory. Strips of bf16 are padded to whole ones.
      alignas(64) std::byte padded[kColumns * kStepBytes];
      for (std::size_t s = 0; s < kColumns; ++s) {
        const std::byte* codes = columns + s * from.strip_stride;
        std::byte* to = padded + s * kStepBytes;
        for (std::size_t at = 0; at < kStepBytes / 2; at += 64) {
          copy_first(to + at, codes + at, 64);
          copy_first(to + kStepBytes / 2 + at, codes + at, 0);
        }
      }
      add_step<kDot, kRows, kColumns>(tiles_, {rows, kTileRegisterBytes, padded, kStepBytes});
    } else {
      add_step<kDot, kRows, kColumns>(tiles_,
                                      {rows, kTileRegisterBytes, columns, from.strip_stride});
    }
  }

  // Of integers: sums with their bias become sums times the scales of the leaf, and with kMerges are
  // added to those at `to`.
  template <bool kMerges>
  void scale_sums(const MatmulLeaf& leaf, const TilePart& part, const SumsOut& to) const {
    const std::size_t padded = row_bytes(leaf);
    const std::size_t strip = first_strip(part);
    const F16 first = scales_of_strip(leaf, padded, strip);
    if (part.strips == 2) {
      const F16 second = scales_of_strip(leaf, padded, strip + 1);
      scale_rows<kMerges, 2>(leaf, part, {first, second}, to);
    } else {
      scale_rows<kMerges, 1>(leaf, part, {first, first}, to);
    }
  }

  [[nodiscard]] F16 scales_of_strip(const MatmulLeaf& leaf,
                                    std::size_t padded,
                                    std::size_t strip) const {
    const std::uint8_t* at = strip_at<IntDot::kInt8Whole>(leaf, tile_, padded, strip);
    return f_load(reinterpret_cast<const float*>(at));
  }

  struct StripScales {
    F16 of_strip[kBlockStrips];
  };

  template <bool kMerges, std::size_t kStrips>
  void scale_rows(const MatmulLeaf& leaf,
                  const TilePart& part,
                  const StripScales& of_columns,
                  const SumsOut& to) const {
    const QuantizedRows& rows = args_.quantized;
    const std::size_t padded = row_bytes(leaf);
    const std::size_t stride = rows.code_stride / 32;
    std::size_t first = block_at(rows, part, 0, leaf.first_k);
    for (std::size_t r = 0; r < part.rows; ++r) {
      const I16 start = i_set(static_cast<std::uint32_t>(whole_start(rows, first, padded)));
      const F16 scale = f_set(rows.scales[first]);
      first += stride;
#pragma GCC unroll 2
      for (std::size_t s = 0; s < kStrips; ++s) {
        const I16 sum = i_load_first(scratch_ + s * kStripNumbers + r * 16, 16) + start;
        const F16 scaled = f_of_signed(sum) * scale * of_columns.of_strip[s];
        float* out = to.first + r * to.row_stride + s * to.strip_stride;
        f_store(out, kMerges ? f_load(out) + scaled : scaled);
      }
    }
  }

  const MatmulArgs& args_;
  const TilePart& tile_;
  std::size_t first_;
  std::size_t end_;
  std::size_t rows_;  // of a block
  Tiles tiles_;
  Waiting waiting_;
  float* node_ = nullptr;  // of the block at hand
  PendingSums<kBlockRows> pending_;
  alignas(64) std::int32_t scratch_[kIsInt ? kBlockStrips * kStripNumbers : 1];
  alignas(64) std::byte awake_[kTileRegisterRows * kTileRegisterBytes];
};

// All rows of a tile: as many as fill two tiles, then what is left.
template <typename Tiles, TileDot kDot>
[[gnu::noinline]] void multiply_leaves(const MatmulArgs& args, const TilePart& tile) {
  constexpr std::size_t kPair = 2 * kTileRegisterRows;
  const std::size_t whole = tile.rows / kPair * kPair;
  if (whole != 0) {
    LeafTiles<Tiles, kDot, 2>(args, tile, 0, whole).run();
  }
  const std::size_t left = tile.rows - whole;
  if (left > kTileRegisterRows) {
    LeafTiles<Tiles, kDot, 2>(args, tile, whole, tile.rows).run();
  } else if (left != 0) {
    LeafTiles<Tiles, kDot, 1>(args, tile, whole, tile.rows).run();
  }
}

}  // namespace
}  // namespace phalanx::kernels
