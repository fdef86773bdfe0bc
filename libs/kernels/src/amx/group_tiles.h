// SPDX-License-Identifier: Apache-2.0
#pragma once

// Products of integers with a scale for each block of activations or group of weights: tiles sum
// one group, lanes add it to the sums of the leaf.

#include "phalanx/kernels/matmul.h"

#include "amx/tile_step.h"
#include "lanes/int_leaf_body.h"
#include "lanes/tile_body.h"

namespace phalanx::kernels {
namespace {

// The rows of a part against its strips. A tile has the K of one group: more would add what has
// different scales. Codes of 4 to 6 bits are made bytes once for all rows. Full blocks have 4 tiles
// of rows, others 1 or 2. Its buffers are not initialised.
template <typename Tiles, IntDot kDot, std::size_t kRowTiles>
class GroupTiles {
 public:
  static constexpr std::size_t kBlockRows = kRowTiles * kTileRegisterRows;

  GroupTiles(const MatmulArgs& args, const TilePart& part)
      : rows_(args.quantized),
        part_(part),
        table_(traits_of(args.leaves[0].weight.format).table),
        tiles_(tile_shape(part.rows, kGroup)) {}

  void add_leaf(const MatmulLeaf& leaf, PendingSums<kBlockRows>& pending) {
    const std::size_t padded = (std::size_t{leaf.weight.rows} + 31) / 32 * 32;
    pending.clear_next(part_.strips, kBlockRows);
    for (std::size_t block = 0; block < padded / 32; block += kBlocks) {
      const std::size_t left = padded / 32 - block;
      const Run run{leaf, padded, block, left < kBlocks ? left : kBlocks};
      for (std::size_t r = 0; r < part_.rows; ++r) {
        const std::size_t to = r * kBlocks;
        take_factors<kDot>(rows_,
                           block_at(rows_, part_, r, leaf.first_k) + block,
                           run.blocks,
                           block == 0,
                           {starts_ + to,
                            kBlockRows * kBlocks,
                            scales_ + to,
                            kHasMinima<kDot> ? factors_ + to : nullptr});
      }
      std::size_t s = 0;
      for (; s + 2 <= part_.strips; s += 2) {
        add_columns<2>(run, s, pending);
      }
      if (s < part_.strips) {
        add_columns<1>(run, s, pending);
      }
    }
    end_sums<kDot>(rows_, part_, leaf, padded, pending);
  }

 private:
  static constexpr int kRows = kRowTiles == 1 ? 1 : 2;  // tiles at once
  static constexpr bool kUnpacks = kCodeRow<kDot> != 16;
  static constexpr std::size_t kGroup = 32 / kParts<kDot>;  // bytes of a row
  static constexpr std::size_t kBlocks = 16;                // of a run
  static constexpr std::size_t kCodeBytes = 512;            // of a block of a strip, as bytes
  static constexpr std::size_t kUnpackedStrip = kBlocks * kCodeBytes;

  // Some blocks of a leaf.
  struct Run {
    const MatmulLeaf& leaf;
    std::size_t padded;  // K of the leaf
    std::size_t first;   // block of the leaf
    std::size_t blocks;
  };

  // All rows of the part against strips s … s + kColumns − 1.
  template <int kColumns>
  void add_columns(const Run& run, std::size_t s, PendingSums<kBlockRows>& pending) {
    const std::uint8_t* strip = strip_at<kDot>(run.leaf, part_, run.padded, s);
    const std::size_t stride = strip_bytes<kDot>(run.padded);
    const std::uint8_t* codes =
        strip + scale_bytes<kDot>(run.padded) + run.first * 32 * kCodeRow<kDot>;
    TileOperands from{
        nullptr, rows_.code_stride, reinterpret_cast<const std::byte*>(codes), stride};
    if constexpr (kUnpacks) {
      for (std::size_t column = 0; column < kColumns; ++column) {
        unpack(codes + column * stride, run.blocks, unpacked_ + column * kUnpackedStrip);
      }
      from.columns = reinterpret_cast<const std::byte*>(unpacked_);
      from.strip_stride = kUnpackedStrip;
    }
    const std::int8_t* first = rows_.codes + block_at(rows_, part_, 0, run.leaf.first_k) * 32;
    for (std::size_t tile = 0; tile < kRowTiles; tile += 2) {
      const std::size_t row = tile * kTileRegisterRows;
      from.rows =
          reinterpret_cast<const std::byte*>(first + row * rows_.code_stride + run.first * 32);
      for (std::size_t block = 0; block < run.blocks; ++block) {
        const GroupScales scales{strip, stride, run.first + block};
        add_group<0, kColumns>(from, row, block, scales, pending.next(s) + row * 16);
        if constexpr (kParts<kDot> == 2) {
          add_group<1, kColumns>(from, row, block, scales, pending.next(s) + row * 16);
        }
      }
    }
  }

  // Codes of a strip as the bytes of a tile.
  void unpack(const std::uint8_t* from, std::size_t blocks, std::uint8_t* to) const {
    constexpr std::size_t kBlockBytes = 32 * kCodeRow<kDot>;
    for (std::size_t block = 0; block < blocks; ++block) {
      for (std::size_t at = 0; at < kBlockBytes; at += 64) {
        prefetch(from + at + kPrefetchBytes);
      }
      put_in_bytes<kDot>(from, table_, 1, to);
      from += kBlockBytes;
      to += kCodeBytes;
    }
  }

  // Scales of a block of neighbouring strips.
  struct GroupScales {
    const std::uint8_t* first;  // of the first strip
    std::size_t strip_stride;   // bytes
    std::size_t block;          // of the leaf
  };

  // Adds part kPart of a block of the run to the sums of the tiles from `row` on.
  template <std::size_t kPart, int kColumns>
  PHALANX_LANES void add_group(const TileOperands& from,
                               std::size_t row,
                               std::size_t block,
                               const GroupScales& scales,
                               float* sums) {
    const TileOperands group{from.rows + block * 32 + kPart * kGroup,
                             from.row_stride,
                             from.columns + block * kCodeBytes + kPart * kGroup * 16,
                             from.strip_stride};
    if constexpr (!kUnpacks) {
      if (row == 0) {  // later rows find the strips in the cache
        prefetch_strips<kColumns>(group, kGroup * 16);
      }
    }
    zero_sums<kRows, kColumns>(tiles_);
    add_step<TileDot::kInt8, kRows, kColumns>(tiles_, group);
    store_sums<kRows, kColumns>(tiles_,
                                {reinterpret_cast<std::byte*>(group_sums_),
                                 kTileRegisterBytes,
                                 kGroupStrip * sizeof(std::int32_t)});
    const std::size_t rows = kRowTiles == 4 ? kGroupRows : part_.rows;
    for (std::size_t column = 0; column < kColumns; ++column) {
      const std::uint8_t* of_strip = scales.first + column * scales.strip_stride;
      add_scaled<kPart>({weight_scales<kDot, kPart>(of_strip, scales.block),
                         weight_minima<kDot, kPart>(of_strip, scales.block)},
                        group_sums_ + column * kGroupStrip,
                        row * kBlocks + block,
                        rows,
                        sums + column * PendingSums<kBlockRows>::kStripFloats);
    }
  }

  struct OfColumns {
    F16 scales;
    F16 minima;
  };

  // One strip: sums = fma(the integer sums, their scale, sums), and of a minimum after it. `at` is
  // the place of the first row and the block among the factors.
  template <std::size_t kPart>
  PHALANX_LANES void add_scaled(const OfColumns& of_columns,
                                const std::int32_t* group_sums,
                                std::size_t at,
                                std::size_t rows,
                                float* sums) {
    const std::size_t first = kPart * kBlockRows * kBlocks + at;
#pragma GCC unroll 4
    for (std::size_t r = 0; r < rows; ++r) {
      I16 sum = i_load_first(group_sums + r * 16, 16);
      if constexpr (kCodeBias<kDot> != 0) {
        sum = sum + i_set(static_cast<std::uint32_t>(starts_[first + r * kBlocks]));
      }
      F16 scale = f_set(scales_[at + r * kBlocks]);
      if constexpr (kHasGroups<kDot>) {
        scale = scale * of_columns.scales;
      }
      F16 added = f_fused(f_of_signed(sum), scale, f_load(sums + r * 16));
      if constexpr (kHasMinima<kDot>) {
        added = f_fused(of_columns.minima, f_set(factors_[first + r * kBlocks]), added);
      }
      f_store(sums + r * 16, added);
    }
  }

  static constexpr std::size_t kGroupRows = kRows * kTileRegisterRows;
  static constexpr std::size_t kGroupStrip = kGroupRows * 16;  // numbers

  const QuantizedRows& rows_;
  const TilePart& part_;
  const CodeTable* table_;
  Tiles tiles_;
  alignas(64) std::int32_t group_sums_[2 * kGroupStrip];
  alignas(64) std::uint8_t unpacked_[kUnpacks ? 2 * kUnpackedStrip : 1];
  // [kBlockRows, kBlocks] each, of starts and factors for each part.
  alignas(64) std::int32_t starts_[kParts<kDot> * kBlockRows * kBlocks];
  alignas(64) float scales_[kBlockRows * kBlocks];
  alignas(64) float factors_[kHasMinima<kDot> ? kParts<kDot> * kBlockRows * kBlocks : 1];
};

}  // namespace
}  // namespace phalanx::kernels
