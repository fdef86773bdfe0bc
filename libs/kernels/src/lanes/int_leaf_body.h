// SPDX-License-Identifier: Apache-2.0
#pragma once

// What products of integers do once for a row of a leaf or a block of it, however they are summed.

#include <bit>

#include "phalanx/kernels/matmul.h"

#include "lanes/half_sums.h"
#include "lanes/int_dot_body.h"
#include "lanes/lanes.h"
#include "lanes/quantize_body.h"
#include "lanes/tile_body.h"

namespace phalanx::kernels {
namespace {

// The numbers before these: the first lane is 0, lane i has lane i − 1.
PHALANX_LANES I16 i_later(I16 a) {
  alignas(64) std::int32_t numbers[32] = {};
  i_store_first(numbers + 1, a, 16);
  return i_load_first(numbers, 16);
}

// Which block of all rows begins at `first_code` of a row of the tile.
PHALANX_LANES std::size_t block_at(const QuantizedRows& rows,
                                   const TilePart& part,
                                   std::size_t row,
                                   std::size_t first_code) {
  return ((part.first_row + row) * rows.code_stride + first_code) / 32;
}

// A strip of the tile; `padded` is the padded K of the leaf.
template <IntDot kDot>
PHALANX_LANES const std::uint8_t* strip_at(const MatmulLeaf& leaf,
                                           const TilePart& part,
                                           std::size_t padded,
                                           std::size_t strip) {
  const std::size_t bytes = strip_bytes<kDot>(padded);
  const std::size_t columns = part.column(strip) - part.first_column;
  return reinterpret_cast<const std::uint8_t*>(leaf.weight.data) +
         strip_offset(leaf.weight, part.first_column, bytes) + columns / 16 * bytes;
}

// What the integer sum of a whole leaf of a row begins with; `first` is its first block.
PHALANX_LANES std::int32_t whole_start(const QuantizedRows& rows,
                                       std::size_t first,
                                       std::size_t padded) {
  return rows.sums[first + padded / 32 - 1] * -kCodeBias<IntDot::kInt8Whole>;
}

// −bias · sum.
template <IntDot kDot>
PHALANX_LANES I16 unbiased(I16 sums) {
  constexpr std::uint32_t kBias = kCodeBias<kDot>;
  static_assert(kBias == 0 || std::has_single_bit(kBias));
  if constexpr (kBias == 0) {
    return i_set(0);
  } else {
    return i_left<std::countr_zero(kBias)>(i_set(0) - sums);
  }
}

// The sums of the first 16 codes of each block, of up to 16 blocks.
PHALANX_LANES I16 first_halves(const std::int8_t* codes, std::size_t count) {
  alignas(64) std::int32_t sums[16] = {};
  const std::size_t blocks = count < 16 ? count : 16;
  std::size_t block = 0;
  for (; block + 4 <= blocks; block += 4) {
    sum_halves(codes + block * 32, sums + block);
  }
  for (; block < blocks; ++block) {
    for (std::size_t i = 0; i < 16; ++i) {
      sums[block] += codes[block * 32 + i];
    }
  }
  return i_load_first(sums, 16);
}

// What the sums of the blocks of one row begin with and are multiplied by, one number for each
// block, and room for whole sixteens of them: to store some lanes of a register takes AVX2 10 to 13
// cycles, all of them 2 (Zen 3).
struct BlockFactors {
  std::int32_t* starts;     // −bias · the sum of the codes of a part
  std::size_t part_stride;  // from part to part of starts and factors
  float* scales;            // 1 where scales of activations are of leaves
  float* factors;           // −scale · the sum of the codes of a part, where there are minima
};

// Those of one part of up to 16 blocks, `at` their place.
template <IntDot kDot>
PHALANX_LANES void put_factors(I16 sums, F16 scales, const BlockFactors& to, std::size_t at) {
  i_store(reinterpret_cast<std::uint32_t*>(to.starts + at), unbiased<kDot>(sums));
  if constexpr (kHasMinima<kDot>) {
    const F16 factor = scales * f_of_signed(sums);
    f_store(to.factors + at, f_bits(i_bits(factor) ^ i_set(0x80000000)));
  }
}

// The sums of the codes of each of up to 16 blocks from block `first` of all rows, which begins its
// leaf or not.
PHALANX_LANES I16 sums_of_blocks(const QuantizedRows& rows,
                                 std::size_t first,
                                 std::size_t count,
                                 bool begins_leaf) {
  const I16 sums = i_load_first(rows.sums + first, count);
  if (rows.span == ScaleSpan::kBlock) {
    return sums;
  }
  return sums - (begins_leaf ? i_later(sums) : i_load_first(rows.sums + first - 1, count));
}

// Those of `count` blocks from block `from` of all rows, which begins its leaf or not, 16 at a
// time.
template <IntDot kDot>
PHALANX_LANES void take_factors(const QuantizedRows& rows,
                                std::size_t from,
                                std::size_t count,
                                bool begins_leaf,
                                const BlockFactors& to) {
  for (std::size_t block = 0; block < count; block += 16) {
    const std::size_t left = count - block;
    const I16 sums = sums_of_blocks(rows, from + block, left, begins_leaf && block == 0);
    F16 scales = f_set(1.0F);
    if (rows.span == ScaleSpan::kBlock) {
      scales = f_load_first(rows.scales + from + block, left);
    }
    f_store(to.scales + block, scales);
    I16 of_first_part = sums;
    if constexpr (kParts<kDot> == 2) {
      of_first_part = first_halves(rows.codes + (from + block) * 32, left);
      put_factors<kDot>(sums - of_first_part, scales, to, to.part_stride + block);
    }
    put_factors<kDot>(of_first_part, scales, to, block);
  }
}

// Multiplies the next sums by the scales that are of the leaf, if any are.
template <IntDot kDot, std::size_t kRows>
PHALANX_LANES void end_sums(const QuantizedRows& rows,
                            const TilePart& part,
                            const MatmulLeaf& leaf,
                            std::size_t padded,
                            PendingSums<kRows>& pending) {
  const bool by_block = rows.span == ScaleSpan::kBlock;
  if (by_block && kDot != IntDot::kInt8Blocks) {
    return;
  }
  for (std::size_t s = 0; s < part.strips; ++s) {
    const auto* of_columns = reinterpret_cast<const float*>(strip_at<kDot>(leaf, part, padded, s));
    for (std::size_t r = 0; r < part.rows; ++r) {
      float* sums = pending.next(s) + r * 16;
      F16 sum = f_load(sums);
      if (!by_block) {
        sum = sum * f_set(rows.scales[block_at(rows, part, r, leaf.first_k)]);
      }
      if constexpr (kDot == IntDot::kInt8Blocks) {
        sum = sum * f_load(of_columns);
      }
      f_store(sums, sum);
    }
  }
}

// Calls run.operator()<kDot>() for the kind of the product.
// Requires weights of integers.
template <typename Run>
PHALANX_LANES void dispatch_int_dot(const MatmulArgs& args, const Run& run) {
  switch (args.leaves[0].weight.format) {
    case WeightFormat::kBf16:
      return;
    case WeightFormat::kInt8:
      if (args.quantized.span == ScaleSpan::kLeaf) {
        return run.template operator()<IntDot::kInt8Whole>();
      }
      return run.template operator()<IntDot::kInt8Blocks>();
    case WeightFormat::kInt8G32:
      return run.template operator()<IntDot::kInt8G32>();
    case WeightFormat::kInt4:
      return run.template operator()<IntDot::kInt4>();
    case WeightFormat::kInt8G16:
      return run.template operator()<IntDot::kInt8G16>();
    case WeightFormat::kInt5G32:
      return run.template operator()<IntDot::kInt5G32>();
    case WeightFormat::kInt5G32Min:
      return run.template operator()<IntDot::kInt5G32Min>();
    case WeightFormat::kInt4G32Min:
      return run.template operator()<IntDot::kInt4G32Min>();
    case WeightFormat::kInt8G16Min:
      return run.template operator()<IntDot::kInt8G16Min>();
    case WeightFormat::kInt6G16K:
      return run.template operator()<IntDot::kInt6G16K>();
    case WeightFormat::kInt4G16K:
      return run.template operator()<IntDot::kInt4G16K>();
    case WeightFormat::kInt5G32MinK:
      return run.template operator()<IntDot::kInt5G32MinK>();
    case WeightFormat::kInt4G32MinK:
      return run.template operator()<IntDot::kInt4G32MinK>();
    case WeightFormat::kInt4G16MinK:
      return run.template operator()<IntDot::kInt4G16MinK>();
    case WeightFormat::kIq4G32:
    case WeightFormat::kE2m1G32:
    case WeightFormat::kIq3XxsG32:
    case WeightFormat::kIq3SG32:
    case WeightFormat::kIq2G32:
      return run.template operator()<IntDot::kTableG32>();
    case WeightFormat::kE2m1G16:
    case WeightFormat::kIq2G16:
      return run.template operator()<IntDot::kTableG16>();
  }
}

}  // namespace
}  // namespace phalanx::kernels
