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
// different scales. Codes are made signed bytes once for all rows, so that lanes need not take
// their bias away. Sums of 16 rows and a strip stay in registers for a run of blocks, and lanes add
// what tiles have summed two groups ago, while tiles sum the next ones. Full blocks have 4 tiles of
// rows, others 1 or 2. Its buffers are not initialised.
template <typename Tiles, IntDot kDot, std::size_t kRowTiles>
class GroupTiles {
 public:
  static constexpr std::size_t kBlockRows = kRowTiles * kTileRegisterRows;

  GroupTiles(const MatmulArgs& args, const TilePart& part)
      : rows_(args.quantized),
        part_(part),
        table_(traits_of(args.leaves[0].weight.format).table),
        tiles_(tile_shape(part.rows, kGroup)) {}

  [[nodiscard]] static constexpr bool merges_leaves() { return false; }

  void add_leaf(const MatmulLeaf& leaf, PendingSums<kBlockRows>& pending) {
    const std::size_t padded = (std::size_t{leaf.weight.rows} + 31) / 32 * 32;
    for (std::size_t block = 0; block < padded / 32; block += kBlocks) {
      const std::size_t left = padded / 32 - block;
      const Run run{leaf, padded, block, left < kBlocks ? left : kBlocks};
      take_scales(run);
      for (std::size_t s = 0; s < part_.strips; ++s) {
        make_bytes(run, s);
        if constexpr (kRowTiles == 2) {
          add_rows<0>(run, s, {0, 1}, pending);
          add_rows<1>(run, s, {1, 2}, pending);
        } else {
          add_rows<0>(run, s, {0, kRowTiles}, pending);
        }
      }
    }
    end_sums<kDot>(rows_, part_, leaf, padded, pending);
  }

 private:
  static constexpr std::size_t kGroup = 32 / kParts<kDot>;  // bytes of a row
  static constexpr std::size_t kBlocks = 16;                // of a run
  static constexpr std::size_t kCodeBytes = 512;            // of a block of a strip, as bytes
  static constexpr std::size_t kAhead = 2;                  // groups that tiles are ahead of lanes
  static constexpr std::size_t kRing = 4;                   // whose sums are in memory
  static_assert(kRing > kAhead);

  // Some blocks of a leaf.
  struct Run {
    const MatmulLeaf& leaf;
    std::size_t padded;  // K of the leaf
    std::size_t first;   // block of the leaf
    std::size_t blocks;
  };

  // Of all rows and the blocks of the run.
  void take_scales(const Run& run) {
    for (std::size_t r = 0; r < part_.rows; ++r) {
      const std::size_t to = r * kBlocks;
      const std::size_t from = block_at(rows_, part_, r, run.leaf.first_k) + run.first;
      if constexpr (kHasMinima<kDot>) {
        take_factors<kDot>(rows_,
                           from,
                           run.blocks,
                           run.first == 0,
                           {starts_ + to, kBlockRows * kBlocks, scales_ + to, factors_ + to});
      } else if (rows_.span == ScaleSpan::kBlock) {
        f_store(scales_ + to, f_load_first(rows_.scales + from, run.blocks));
      } else {
        f_store(scales_ + to, f_set(1.0F));
      }
    }
  }

  [[nodiscard]] const std::uint8_t* codes_of(const Run& run, std::size_t s) const {
    return strip_at<kDot>(run.leaf, part_, run.padded, s) + scale_bytes<kDot>(run.padded) +
           run.first * 32 * kCodeRow<kDot>;
  }

  // Codes of a strip as signed bytes.
  void make_bytes(const Run& run, std::size_t s) {
    const std::uint8_t* from = codes_of(run, s);
    std::uint8_t* to = bytes_;
    for (std::size_t block = 0; block < run.blocks; ++block) {
      make_half<0>(from, to);
      make_half<1>(from, to + kCodeBytes / 2);
      from += 32 * kCodeRow<kDot>;
      to += kCodeBytes;
    }
  }

  template <std::size_t kHalf>
  PHALANX_LANES void make_half(const std::uint8_t* block, std::uint8_t* to) const {
    const __m512i bias = _mm512_set1_epi8(static_cast<char>(kCodeBias<kDot>));
    CodeBytes quads[4];
    if constexpr (kCodeRow<kDot> == 16) {
#pragma GCC unroll 4
      for (std::size_t i = 0; i < 4; ++i) {
        quads[i] = c_load(block + kHalf * 256 + i * 64);
      }
    } else {
      load_half<kDot, kHalf>(block, table_, quads);
    }
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) {
      c_store(to + i * 64, {_mm512_sub_epi8(quads[i].v, bias)});
    }
  }

  struct RowTiles {
    std::size_t first;
    std::size_t end;
  };
  struct Sums {
    F16 of_row[kTileRegisterRows];
  };
  // Groups in the order in which tiles sum them and lanes add them, all of one tile of rows after
  // the other.
  struct Walk {
    const std::byte* rows;  // of the group that tiles sum next
    std::size_t group;
    std::size_t begun;  // groups
    std::size_t kept;   // their sums are in memory
    std::size_t ended;
    std::size_t of_tile;
    std::size_t all;
    const std::uint8_t* strip;  // scales of columns
    std::size_t first_block;
    const std::uint8_t* fetched;  // codes of the next run
  };

  // `kRow` is which tile of rows of the shape they are.
  template <int kRow>
  [[gnu::noinline]] void add_rows(const Run& run,
                                  std::size_t s,
                                  RowTiles tiles,
                                  PendingSums<kBlockRows>& pending) {
    const std::size_t row = tiles.first * kTileRegisterRows;
    const std::int8_t* codes = rows_.codes + block_at(rows_, part_, row, run.leaf.first_k) * 32;
    const std::size_t groups = run.blocks * kParts<kDot>;
    Walk walk{reinterpret_cast<const std::byte*>(codes + run.first * 32),
              0,
              0,
              0,
              0,
              groups,
              groups * (tiles.end - tiles.first),
              strip_at<kDot>(run.leaf, part_, run.padded, s),
              run.first,
              codes_of(run, s) + run.blocks * 32 * kCodeRow<kDot>};
    for (std::size_t i = 0; i < kAhead; ++i) {
      begin_group<kRow>(walk);
    }
    for (std::size_t tile = tiles.first; tile < tiles.end; ++tile) {
      add_groups<kRow>(
          tile * kTileRegisterRows, pending.next(s) + tile * kTileRegisterRows * 16, walk);
    }
  }

  // Of the rows from `row` on.
  template <int kRow>
  PHALANX_LANES void add_groups(std::size_t row, float* to, Walk& walk) {
    Sums sums;
    const bool begins = walk.first_block == 0;
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kTileRegisterRows; ++r) {
      sums.of_row[r] = begins ? f_set(0.0F) : f_load(to + r * 16);
    }
    for (std::size_t block = 0; block < walk.of_tile / kParts<kDot>; ++block) {
      begin_group<kRow>(walk);
      end_group<0>(row, block, walk, sums);
      if constexpr (kParts<kDot> == 2) {
        begin_group<kRow>(walk);
        end_group<1>(row, block, walk, sums);
      }
    }
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kTileRegisterRows; ++r) {
      f_store(to + r * 16, sums.of_row[r]);
    }
  }

  // By tiles. What they have summed goes to memory before the next group is begun and not at once:
  // nothing behind a store gets through before what it waits for.
  template <int kRow>
  PHALANX_LANES void begin_group(Walk& walk) {
    if (walk.kept != walk.begun) {
      tiles_.template store<kRow, 0>(reinterpret_cast<std::byte*>(group_sums_[walk.kept % kRing]),
                                     kTileRegisterBytes);
      ++walk.kept;
    }
    if (walk.begun == walk.all) {
      return;
    }
    tiles_.template zero<kRow, 0>();
    tiles_.template load_rows<kRow>(walk.rows, rows_.code_stride);
    tiles_.template load_columns<0>(reinterpret_cast<const std::byte*>(bytes_) +
                                    walk.group * kGroup * 16);
    tiles_.template dpbssd<kRow, 0>();
    if (walk.begun < walk.of_tile) {
      fetch_codes(walk);
    }
    ++walk.begun;
    ++walk.group;
    walk.rows += kGroup;
    if (walk.group == walk.of_tile) {
      walk.group = 0;
      walk.rows += kTileRegisterRows * rows_.code_stride - walk.of_tile * kGroup;
    }
  }

  // As many codes as a group has: memory is read all the time, not only while codes are made bytes.
  PHALANX_LANES static void fetch_codes(Walk& walk) {
    constexpr std::size_t kBytes = kGroup * kCodeRow<kDot>;
    for (std::size_t at = 0; at < kBytes; at += 64) {
      prefetch_second(reinterpret_cast<const std::byte*>(walk.fetched + at));
    }
    walk.fetched += kBytes;
  }

  // By lanes.
  template <std::size_t kPart>
  PHALANX_LANES void end_group(std::size_t row, std::size_t block, Walk& walk, Sums& sums) {
    const F16 scales = weight_scales<kDot, kPart>(walk.strip, walk.first_block + block);
    const F16 minima = weight_minima<kDot, kPart>(walk.strip, walk.first_block + block);
    const float* of_rows = scales_ + row * kBlocks + block;
    const std::int32_t* group_sums = group_sums_[walk.ended % kRing];
    ++walk.ended;
#pragma GCC unroll 16
    for (std::size_t r = 0; r < kTileRegisterRows; ++r) {
      F16 scale = f_set(of_rows[r * kBlocks]);
      if constexpr (kHasGroups<kDot>) {
        scale = scale * scales;
      }
      F16 sum = f_fused(f_of_signed(i_load_first(group_sums + r * 16, 16)), scale, sums.of_row[r]);
      if constexpr (kHasMinima<kDot>) {
        constexpr std::size_t kFirst = kPart * kBlockRows * kBlocks;
        sum = f_fused(minima, f_set(factors_[kFirst + (row + r) * kBlocks + block]), sum);
      }
      // Rows one after the other: g++ would otherwise load all of them first, and spill them.
      asm volatile("" : "+v"(sum.v) : : "memory");
      sums.of_row[r] = sum;
    }
  }

  const QuantizedRows& rows_;
  const TilePart& part_;
  const CodeTable* table_;
  Tiles tiles_;
  alignas(64) std::int32_t group_sums_[kRing][kTileRegisterRows * 16];
  alignas(64) std::uint8_t bytes_[kBlocks * kCodeBytes];
  // [kBlockRows, kBlocks] each, of starts and factors for each part.
  alignas(64) float scales_[kBlockRows * kBlocks];
  alignas(64) float factors_[kHasMinima<kDot> ? kParts<kDot> * kBlockRows * kBlocks : 1];
  alignas(64) std::int32_t starts_[kHasMinima<kDot> ? kParts<kDot> * kBlockRows * kBlocks : 1];
};

}  // namespace
}  // namespace phalanx::kernels
