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
    Settling sums;
    for (std::size_t row = first_; row < end_; row += kBlockRows) {
      for (std::size_t s = 0; s < tile_.strips; s += kBlockStrips) {
        const std::size_t left = tile_.strips - s;
        const TilePart part{tile_.first_row + row,
                            rows_,
                            tile_.first_column + s * 16,
                            left < kBlockStrips ? left : kBlockStrips};
        if (part.strips == 2) {
          add_block<2>(part, sums);
        } else {
          add_block<1>(part, sums);
        }
      }
    }
    settle_all(sums);
  }

 private:
  static constexpr bool kIsInt = kDot == TileDot::kInt8;
  static constexpr std::size_t kBlockStrips = 2;
  static constexpr std::size_t kStepBytes = 1024;                // of a strip
  static constexpr std::size_t kAwakeSteps = 16;                 // less than 0.5 µs
  static constexpr std::size_t kStripNumbers = kBlockRows * 16;  // of scratch

  using Sum = std::conditional_t<kIsInt, std::int32_t, float>;
  using Pending = PendingSums<kBlockRows, kBlockStrips>;

  // Sums of a leaf that tiles have left in scratch: what lanes have still to do with them. It is a
  // local variable of run(), so that it is kept in registers.
  struct Settling {
    std::size_t rows = 0;  // that wait
    std::size_t strips = 0;
    const Sum* from = nullptr;
    float* to = nullptr;
    std::size_t to_row = 0;  // numbers from row to row, and from strip to strip
    std::size_t to_strip = 0;
    const float* pending = nullptr;  // behind those that are merged
    std::uint32_t merges = 0;
    // Of integers: scales of columns, and those of rows with the sums of their codes, of which so
    // many numbers lie from row to row.
    const float* of_columns[kBlockStrips] = {};
    const float* of_rows = nullptr;
    const std::int32_t* code_sums = nullptr;
    std::size_t stride = 0;
  };

  template <int kColumns>
  PHALANX_LANES void add_block(const TilePart& part, Settling& sums) {
    float* node = args_.out;
    for (std::uint32_t i = 0; i < args_.leaf_count; ++i) {
      const MatmulLeaf& leaf = args_.leaves[i];
      add_leaf<kColumns>(part, leaf, sums);
      if (goes_straight_out(part)) {
        float* out = node + part.first_row * args_.out_stride + part.first_column;
        store_sums<kRows, kColumns>(
            tiles_, {reinterpret_cast<std::byte*>(out), args_.out_stride * 4, kTileRegisterBytes});
        return;
      }
      store_sums<kRows, kColumns>(
          tiles_, {reinterpret_cast<std::byte*>(scratch_), kTileRegisterBytes, kStripNumbers * 4});
      wait_for_lanes(part, leaf, node, sums);
      if (leaf.emit) {
        if (!is_whole(part)) {
          settle_all(sums);
          pending_.emit(args_, part, node);
        }
        node += args_.node_stride;
      }
    }
  }

  // The sums of the leaf are in the tiles, and those that waited are settled.
  template <int kColumns>
  PHALANX_LANES void add_leaf(const TilePart& part, const MatmulLeaf& leaf, Settling& sums) {
    const TileOperands from = operands(leaf, part);
    const std::size_t k_bytes = row_bytes(leaf);
    zero_sums<kRows, kColumns>(tiles_);
    if (sums.strips != kColumns) {
      settle_all(sums);
    }
    add_steps<kColumns>(part, leaf, from, k_bytes / kTileRegisterBytes, sums);
    if (k_bytes % kTileRegisterBytes != 0) {
      add_tail<kColumns>(from, k_bytes);
    }
    settle_all(sums);
  }

  // Whether all its columns are there, and nothing is added to them.
  [[nodiscard]] bool is_whole(const TilePart& part) const {
    return args_.bias == nullptr && part.first_column + part.strips * 16 <= args_.columns;
  }
  // Whether what tiles sum is all there is.
  [[nodiscard]] bool goes_straight_out(const TilePart& part) const {
    return !kIsInt && args_.leaf_count == 1 && is_whole(part);
  }

  // From here on lanes settle the sums in scratch, some rows after each step of the next leaf.
  PHALANX_LANES void wait_for_lanes(const TilePart& part,
                                    const MatmulLeaf& leaf,
                                    float* node,  // NOLINT(readability-non-const-parameter)
                                    Settling& sums) {
    sums.rows = part.rows;
    sums.strips = part.strips;
    sums.from = scratch_;
    sums.merges = leaf.merges;
    sums.pending = pending_.next(0);
    pending_.merge_into_next(leaf.merges);
    if (leaf.emit && is_whole(part)) {
      pending_.pop();
      sums.to = node + part.first_row * args_.out_stride + part.first_column;
      sums.to_row = args_.out_stride;
      sums.to_strip = 16;
    } else {
      sums.to = pending_.last(0);
      sums.to_row = 16;
      sums.to_strip = Pending::kStripFloats;
    }
    if constexpr (kIsInt) {
      const QuantizedRows& rows = args_.quantized;
      const std::size_t first = block_at(rows, part, 0, leaf.first_k);
      sums.of_rows = rows.scales + first;
      sums.code_sums = rows.sums + first + row_bytes(leaf) / 32 - 1;
      sums.stride = rows.code_stride / 32;
      for (std::size_t s = 0; s < kBlockStrips; ++s) {
        sums.of_columns[s] = scales_of_strip(leaf, first_strip(part) + s);
      }
    }
  }

  PHALANX_LANES void settle_all(Settling& sums) {
    if (sums.strips == 2) {
      settle_rows<2>(sums, sums.rows);
    } else {
      settle_rows<1>(sums, sums.rows);
    }
  }

  // The next `count` rows that wait, if there are so many.
  template <std::size_t kStrips>
  PHALANX_LANES void settle_rows(Settling& sums, std::size_t count) const {
    std::size_t rows = count < sums.rows ? count : sums.rows;
    sums.rows -= rows;
    for (; rows > 0; --rows) {
      F16 row[kStrips];
      take_row<kStrips>(sums, row);
      const float* lower = sums.pending;
      for (std::uint32_t merges = sums.merges; merges > 0; --merges) {
        lower -= Pending::kLevelFloats;
#pragma GCC unroll 2
        for (std::size_t s = 0; s < kStrips; ++s) {
          row[s] = f_load(lower + s * Pending::kStripFloats) + row[s];
        }
      }
#pragma GCC unroll 2
      for (std::size_t s = 0; s < kStrips; ++s) {
        f_store(sums.to + s * sums.to_strip, row[s]);
      }
      sums.from += 16;
      sums.to += sums.to_row;
      sums.pending += 16;
    }
  }

  // What tiles have summed of a row; integers without the bias of codes, times both scales.
  template <std::size_t kStrips>
  PHALANX_LANES void take_row(Settling& sums, F16 (&row)[kStrips]) const {
    if constexpr (kIsInt) {
      const I16 code_sum = i_set(static_cast<std::uint32_t>(*sums.code_sums));
      const I16 start = unbiased<IntDot::kInt8Whole>(code_sum);
      const F16 scale = f_set(*sums.of_rows);
#pragma GCC unroll 2
      for (std::size_t s = 0; s < kStrips; ++s) {
        const I16 sum = i_load_first(sums.from + s * kStripNumbers, 16) + start;
        row[s] = f_of_signed(sum) * scale * f_load(sums.of_columns[s]);
      }
      sums.of_rows += sums.stride;
      sums.code_sums += sums.stride;
    } else {
#pragma GCC unroll 2
      for (std::size_t s = 0; s < kStrips; ++s) {
        row[s] = f_load(sums.from + s * kStripNumbers);
      }
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
  [[nodiscard]] FetchLater fetch_during(const TilePart& part,
                                        const MatmulLeaf& leaf,
                                        std::size_t steps) const {
    const std::size_t row_blocks = (args_.rows + kBlockRows - 1) / kBlockRows;
    const std::size_t strip_blocks = (tile_.strips + 1) / kBlockStrips;
    const std::size_t blocks = args_.row_runs * row_blocks * strip_blocks;
    const std::size_t row_block = args_.row_run * row_blocks + part.first_row / kBlockRows;
    const std::size_t block = row_block * strip_blocks + first_strip(part) / kBlockStrips;
    const std::size_t stride = strip_bytes_of(leaf);
    const std::size_t lines = kTileStrips * stride / 64;
    const std::size_t first = lines * block / blocks;
    const std::size_t right = tile_.first_column + kMatmulTileColumns;
    const std::byte* next = leaf.weight.data + strip_offset(leaf.weight, right, stride);
    return FetchLater::all_of({next + first * 64, lines * (block + 1) / blocks - first, 1, 0},
                              steps,
                              CacheLevel::kSecond);
  }

  template <int kColumns>
  PHALANX_LANES void add_steps(const TilePart& part,
                               const MatmulLeaf& leaf,
                               TileOperands from,
                               std::size_t steps,
                               Settling& sums) {
    if (steps == 0) {
      return;
    }
    FetchLater fetch = fetch_during(part, leaf, steps);
    // Few rows wait for memory.
    const bool waits = args_.rows < kMatmulTileRows && part.first_row == 0;
    const std::size_t settled = (sums.rows + steps - 1) / steps;
    for (std::size_t step = 0; step < steps; ++step) {
      if (waits) {
        prefetch_strips<kColumns>(from, kStepBytes);
      } else {
        fetch.block();
      }
      add_step<kDot, kRows, kColumns>(tiles_, from);
      settle_rows<kColumns>(sums, settled);
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

  [[nodiscard]] const float* scales_of_strip(const MatmulLeaf& leaf, std::size_t strip) const {
    return reinterpret_cast<const float*>(
        strip_at<IntDot::kInt8Whole>(leaf, tile_, row_bytes(leaf), strip));
  }

  const MatmulArgs& args_;
  const TilePart& tile_;
  std::size_t first_;
  std::size_t end_;
  std::size_t rows_;  // of a block
  Tiles tiles_;
  Pending pending_;
  alignas(64) Sum scratch_[kBlockStrips * kStripNumbers];
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
