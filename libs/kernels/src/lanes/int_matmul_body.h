// SPDX-License-Identifier: Apache-2.0
#pragma once

// One tile of a matrix product over integers.

#include "phalanx/kernels/matmul.h"

#include "lanes/int_dot_body.h"
#include "lanes/lanes.h"
#include "lanes/tile_body.h"

namespace phalanx::kernels {
namespace {

// Spread codes stay in the L1 cache while every strip of the tile passes over them.
inline constexpr std::size_t kSpreadCodes = 8192;

// The first `count` lanes; zeros beyond, which are not read.
PHALANX_LANES I16 i_load_first(const std::int32_t* p, std::size_t count) {
  return i_bits(f_load_first(reinterpret_cast<const float*>(p), count));
}
PHALANX_LANES void i_store_first(std::int32_t* p, I16 a, std::size_t count) {
  f_store_first(reinterpret_cast<float*>(p), f_bits(a), count);
}
PHALANX_LANES std::int32_t i_sum_all(const std::int32_t* numbers, std::size_t count) {
  I16 sum = i_set(0);
  for (std::size_t i = 0; i < count; i += 16) {
    sum = sum + i_load_first(numbers + i, count - i);
  }
  return i_sum(sum);
}

// Up to kRows rows of codes against the strips of a tile; rows that do not exist repeat the first
// one and are not written. Its buffers are not initialised: they are large.
template <IntDot kDot, std::size_t kRows>
class IntRowBlock {
 public:
  static constexpr std::size_t kBlockRows = kRows;

  IntRowBlock(const MatmulArgs& args, const TilePart& part)
      : rows_(args.quantized), part_(part), by_block_(rows_.span == ScaleSpan::kBlock) {}

  void add_leaf(const MatmulLeaf& leaf, PendingSums<kRows>& pending) {
    const std::size_t padded = (std::size_t{leaf.weight.rows} + 31) / 32 * 32;
    if constexpr (kDot == IntDot::kInt8Whole) {
      begin_sums(leaf, padded);
    } else {
      pending.clear_next(part_.strips);
    }
    for (std::size_t k = 0; k < padded; k += kChunk) {
      const std::size_t chunk = padded - k < kChunk ? padded - k : kChunk;
      take_rows(leaf.first_k + k, chunk);
      std::size_t s = 0;
      for (; s + kStrips <= part_.strips; s += kStrips) {
        add_strips<kStrips>(strip_at(leaf, padded, s), padded, k, chunk, pending.next(s));
      }
      if constexpr (kStrips > 1) {
        for (; s < part_.strips; ++s) {
          add_strips<1>(strip_at(leaf, padded, s), padded, k, chunk, pending.next(s));
        }
      }
    }
    if constexpr (kDot != IntDot::kInt8Whole) {
      end_leaf(leaf, padded, pending);
    }
  }

 private:
  static constexpr std::size_t kChunk = kSpreadCodes / kRows;
  static constexpr std::size_t kBlocks = kChunk / 32;
  static constexpr std::size_t kStride = kBlocks * kSpreadWords<kDot> + kRowGap;
  // One row is a matter of memory: a strip is read from its beginning to its end.
  static constexpr std::size_t kStrips = kRows == 1 ? 1 : kMaxIntStrips;

  // Where the block of codes lies that begins at `first_code` of a row.
  [[nodiscard]] std::size_t block_at(std::size_t row, std::size_t first_code) const {
    return ((part_.first_row + row) * rows_.code_stride + first_code) / 32;
  }

  [[nodiscard]] const std::uint8_t* strip_at(const MatmulLeaf& leaf,
                                             std::size_t padded,
                                             std::size_t strip) const {
    return reinterpret_cast<const std::uint8_t*>(leaf.weight.data) +
           (part_.first_column / 16 + strip) * strip_bytes<kDot>(padded);
  }

  // What the integer sum of a whole leaf begins with, and what it is multiplied by.
  void begin_sums(const MatmulLeaf& leaf, std::size_t padded) {
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::size_t first = block_at(r < part_.rows ? r : 0, leaf.first_k);
      starts_[r * kBlocks] = i_sum_all(rows_.block_sums + first, padded / 32) * -kCodeBias<kDot>;
      scales_[r * kBlocks] = rows_.scales[first];
    }
  }

  void take_rows(std::size_t first_code, std::size_t chunk) {
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::size_t first = block_at(r < part_.rows ? r : 0, first_code);
      const std::int8_t* codes = rows_.codes + first * 32;
      for (std::size_t block = 0; block < chunk / 32; ++block) {
        std::uint32_t* to = spread_ + r * kStride + block * kSpreadWords<kDot>;
        if constexpr (kIsNibbles<kDot>) {
          n_spread(codes + block * 32, to);
        } else {
          q_spread(codes + block * 32, to);
        }
      }
      if constexpr (kDot != IntDot::kInt8Whole) {
        take_scales(r, first, chunk / 32);
      }
    }
  }

  // What the sums of `count` blocks begin with and are multiplied by, 16 blocks at a time.
  void take_scales(std::size_t row, std::size_t from, std::size_t count) {
    for (std::size_t block = 0; block < count; block += 16) {
      const std::size_t left = count - block;
      const std::size_t to = row * kBlocks + block;
      const I16 sums = i_load_first(rows_.block_sums + from + block, left);
      F16 scales = f_set(1.0F);
      if (by_block_) {
        scales = f_load_first(rows_.scales + from + block, left);
      }
      f_store_first(scales_ + to, scales, left);
      I16 of_first_part = sums;
      if constexpr (kParts<kDot> == 2) {
        of_first_part = first_halves(rows_.codes + (from + block) * 32, left);
        i_store_first(starts_ + kRows * kBlocks + to, unbiased(sums - of_first_part), left);
      }
      i_store_first(starts_ + to, unbiased(of_first_part), left);
      if constexpr (kHasMinima<kDot>) {
        const F16 factor = scales * f_of_signed(sums);
        f_store_first(factors_ + to, f_bits(i_bits(factor) ^ i_set(0x80000000)), left);
      }
    }
  }

  // −bias · sum.
  [[nodiscard]] static I16 unbiased(I16 sums) {
    static_assert(kCodeBias<kDot> == 0 || kCodeBias<kDot> == 8 || kCodeBias<kDot> == 128);
    const I16 negative = i_set(0) - sums;
    if constexpr (kCodeBias<kDot> == 128) {
      return i_left<7>(negative);
    } else if constexpr (kCodeBias<kDot> == 8) {
      return i_left<3>(negative);
    } else {
      return i_set(0);
    }
  }

  // The sums of the first 16 codes of each block.
  [[nodiscard]] static I16 first_halves(const std::int8_t* codes, std::size_t count) {
    alignas(64) std::int32_t sums[16] = {};
    for (std::size_t block = 0; block < 16 && block < count; ++block) {
      for (std::size_t i = 0; i < 16; ++i) {
        sums[block] += codes[block * 32 + i];
      }
    }
    return i_load_first(sums, 16);
  }

  template <std::size_t kCount>
  void add_strips(const std::uint8_t* strip,
                  std::size_t padded,
                  std::size_t k,
                  std::size_t chunk,
                  float* sums) {
    const IntRows<kRows, kBlocks> rows{spread_, kStride, starts_, scales_, factors_};
    const IntStrips strips{strip + scale_bytes<kDot>(padded) + k * kCodeRow<kDot>,
                           strip + k / 32 * kScaleRow<kDot>,
                           strip_bytes<kDot>(padded)};
    const IntSums to{sums, PendingSums<kRows>::kStripFloats};
    if constexpr (kDot == IntDot::kInt8Whole) {
      const LeafPart place{k == 0, k + chunk == padded};
      add_whole<kCount>(rows, {strips.codes, strip, strips.stride}, chunk / 32, place, to);
    } else {
      add_scaled<kDot, kCount>(rows, strips, chunk / 32, to);
    }
  }

  // Multiplies by the scales that are of the leaf, if any are.
  void end_leaf(const MatmulLeaf& leaf, std::size_t padded, PendingSums<kRows>& pending) {
    if (by_block_ && kDot != IntDot::kInt8Blocks) {
      return;
    }
    for (std::size_t s = 0; s < part_.strips; ++s) {
      const auto* of_columns = reinterpret_cast<const float*>(strip_at(leaf, padded, s));
      for (std::size_t r = 0; r < part_.rows; ++r) {
        float* sums = pending.next(s) + r * 16;
        F16 sum = f_load(sums);
        if (!by_block_) {
          sum = sum * f_set(rows_.scales[block_at(r, leaf.first_k)]);
        }
        if constexpr (kDot == IntDot::kInt8Blocks) {
          sum = sum * f_load(of_columns);
        }
        f_store(sums, sum);
      }
    }
  }

  const QuantizedRows& rows_;
  const TilePart& part_;
  bool by_block_;
  alignas(64) std::uint32_t spread_[kRows * kStride];
  alignas(64) std::int32_t starts_[kParts<kDot> * kRows * kBlocks];
  alignas(64) float scales_[kBlocks * kRows];
  alignas(64) float factors_[kHasMinima<kDot> ? kBlocks * kRows : 1];
};

// As many rows as part.rows says, at most kRows, which is a power of two.
template <IntDot kDot, std::size_t kRows>
void run_some_int_rows(const MatmulArgs& args, const TilePart& part) {
  if constexpr (kRows > 1) {
    if (part.rows <= kRows / 2) {
      run_some_int_rows<kDot, kRows / 2>(args, part);
      return;
    }
  }
  run_block<IntRowBlock<kDot, kRows>>(args, part);
}

template <IntDot kDot>
void run_int_rows(const MatmulArgs& args, const TilePart& whole) {
  for (std::size_t row = 0; row < whole.rows; row += kMaxIntRows) {
    TilePart part = whole;
    part.first_row += row;
    part.rows = whole.rows - row < kMaxIntRows ? whole.rows - row : kMaxIntRows;
    run_some_int_rows<kDot, kMaxIntRows>(args, part);
  }
}

inline void int_matmul_tile(const MatmulArgs& args, const TilePart& whole) {
  switch (args.leaves[0].weight.format) {
    case WeightFormat::kBf16:
      return;
    case WeightFormat::kInt8:
      if (args.quantized.span == ScaleSpan::kLeaf) {
        run_int_rows<IntDot::kInt8Whole>(args, whole);
      } else {
        run_int_rows<IntDot::kInt8Blocks>(args, whole);
      }
      return;
    case WeightFormat::kInt8G32:
      run_int_rows<IntDot::kInt8G32>(args, whole);
      return;
    case WeightFormat::kInt4:
      run_int_rows<IntDot::kInt4>(args, whole);
      return;
    case WeightFormat::kInt8G16:
      run_int_rows<IntDot::kInt8G16>(args, whole);
      return;
    case WeightFormat::kInt8G32Min:
      run_int_rows<IntDot::kInt8G32Min>(args, whole);
      return;
    case WeightFormat::kInt4G32Min:
      run_int_rows<IntDot::kInt4G32Min>(args, whole);
      return;
  }
}

}  // namespace
}  // namespace phalanx::kernels
