// SPDX-License-Identifier: Apache-2.0
#pragma once

// The dot products of integers over packed strips.

#include "lanes/dot_body.h"
#include "lanes/lanes.h"

namespace phalanx::kernels {
namespace {

// By how the sums of a leaf are made.
enum class IntDot {
  kInt8Whole,   // one integer sum; scales are of leaves
  kInt8Blocks,  // a scale of activations for each block
  kInt8G32,     // a scale of weights for each block
  kInt4,        // as kInt8G32
};

template <IntDot kDot>
inline constexpr bool kHasGroups = kDot == IntDot::kInt8G32 || kDot == IntDot::kInt4;
template <IntDot kDot>
inline constexpr std::int32_t kCodeBias = kDot == IntDot::kInt4 ? 8 : 128;
// Bytes of the codes of 16 columns for one element of K.
template <IntDot kDot>
inline constexpr std::size_t kCodeRow = kDot == IntDot::kInt4 ? 8 : 16;

// Words of 32 codes of a row, spread for the products.
template <IntDot kDot>
inline constexpr std::size_t kSpreadWords = kDot == IntDot::kInt4 ? kNibbleWords : kQuadWords;

// strip_scale_bytes() and weight_bytes() of one strip, for a padded K.
template <IntDot kDot>
PHALANX_LANES std::size_t scale_bytes(std::size_t padded) {
  return kHasGroups<kDot> ? (padded + 63) / 64 * 64 : 64;
}
template <IntDot kDot>
PHALANX_LANES std::size_t strip_bytes(std::size_t padded) {
  return scale_bytes<kDot>(padded) + padded * kCodeRow<kDot>;
}

// A run of blocks of some rows.
template <std::size_t kRows>
struct IntRows {
  const std::uint32_t* spread;  // [kRows, stride], kSpreadWords for each block
  std::size_t stride;
  const std::int32_t* starts;  // [blocks][kRows]: −bias · the sum of the codes
  const float* scales;         // [blocks][kRows]
};
// The same run of some neighbouring strips.
struct IntStrips {
  const std::uint8_t* codes;
  const std::uint8_t* scales;  // [blocks][16] f16, where there are groups
  std::size_t stride;          // bytes from strip to strip
};

// sum[r][s] += block `codes` of strip s times block `a` of row r.
template <std::size_t kRows, std::size_t kStrips>
PHALANX_LANES void add_block(const std::uint32_t* a,
                             std::size_t a_stride,
                             const std::uint8_t* codes,
                             std::size_t strip_stride,
                             I16 (&sum)[kRows][kStrips]) {
#pragma GCC unroll 8
  for (std::size_t q = 0; q < 8; ++q) {
    Quads w[kStrips];
#pragma GCC unroll 2
    for (std::size_t s = 0; s < kStrips; ++s) {
      const std::uint8_t* from = codes + s * strip_stride + q * 64;
      prefetch(from + kPrefetchBytes);
      w[s] = q_load(from);
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (std::size_t s = 0; s < kStrips; ++s) {
        sum[r][s] = q_dot(sum[r][s], w[s], a + r * a_stride, q);
      }
    }
  }
}
template <std::size_t kRows, std::size_t kStrips>
PHALANX_LANES void add_block(const std::uint32_t* a,
                             std::size_t a_stride,
                             const std::uint8_t* codes,
                             std::size_t strip_stride,
                             NibbleSum (&sum)[kRows][kStrips]) {
#pragma GCC unroll 4
  for (std::size_t q = 0; q < 8; q += 2) {
    Nibbles low[kStrips];
    Nibbles high[kStrips];
#pragma GCC unroll 2
    for (std::size_t s = 0; s < kStrips; ++s) {
      const std::uint8_t* from = codes + s * strip_stride + q * 32;
      prefetch(from + kPrefetchBytes);
      n_load(from, &low[s], &high[s]);
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::uint32_t* row = a + r * a_stride;
#pragma GCC unroll 2
      for (std::size_t s = 0; s < kStrips; ++s) {
        sum[r][s] = n_dot(n_dot(sum[r][s], low[s], row, q), high[s], row, q + 1);
      }
    }
  }
}

// The integer sums of one block, with the bias undone.
template <IntDot kDot, std::size_t kRows, std::size_t kStrips>
PHALANX_LANES void sum_block(const IntRows<kRows>& rows,
                             const IntStrips& strips,
                             std::size_t block,
                             I16 (&sum)[kRows][kStrips]) {
  const std::int32_t* starts = rows.starts + block * kRows;
  const std::uint32_t* a = rows.spread + block * kSpreadWords<kDot>;
  const std::uint8_t* codes = strips.codes + block * 32 * kCodeRow<kDot>;
  NibbleSum nibbles[kRows][kStrips];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (std::size_t s = 0; s < kStrips; ++s) {
      if constexpr (kDot == IntDot::kInt4) {
        nibbles[r][s] = n_begin(starts[r]);
      } else {
        sum[r][s] = i_set(static_cast<std::uint32_t>(starts[r]));
      }
    }
  }
  if constexpr (kDot != IntDot::kInt4) {
    add_block(a, rows.stride, codes, strips.stride, sum);
  } else {
    add_block(a, rows.stride, codes, strips.stride, nibbles);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (std::size_t s = 0; s < kStrips; ++s) {
        sum[r][s] = n_end(nibbles[r][s], starts[r]);
      }
    }
  }
}

// The integer sums, which lie in `sums` by their bits, of a run of blocks.
template <std::size_t kRows, std::size_t kStrips>
PHALANX_LANES void add_whole(const IntRows<kRows>& rows,
                             const IntStrips& strips,
                             std::size_t blocks,
                             float* sums,
                             std::size_t sum_stride) {
  I16 sum[kRows][kStrips];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (std::size_t s = 0; s < kStrips; ++s) {
      sum[r][s] = i_bits(f_load(sums + s * sum_stride + r * 16));
    }
  }
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::uint32_t* a = rows.spread + block * kSpreadWords<IntDot::kInt8Whole>;
    const std::uint8_t* codes = strips.codes + block * 512;
    if constexpr (kRows * kStrips >= 4) {
      add_block(a, rows.stride, codes, strips.stride, sum);
    } else {
      // One chain through all blocks would wait for itself.
      I16 part[kRows][kStrips] = {};
      add_block(a, rows.stride, codes, strips.stride, part);
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
        for (std::size_t s = 0; s < kStrips; ++s) {
          sum[r][s] = sum[r][s] + part[r][s];
        }
      }
    }
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (std::size_t s = 0; s < kStrips; ++s) {
      f_store(sums + s * sum_stride + r * 16, f_bits(sum[r][s]));
    }
  }
}

// sums = fma(the integer sum of a block, its scale, sums), block by block.
template <IntDot kDot, std::size_t kRows, std::size_t kStrips>
PHALANX_LANES void add_scaled(const IntRows<kRows>& rows,
                              const IntStrips& strips,
                              std::size_t blocks,
                              float* sums,
                              std::size_t sum_stride) {
  for (std::size_t block = 0; block < blocks; ++block) {
    const float* scales = rows.scales + block * kRows;
    I16 sum[kRows][kStrips];
    sum_block<kDot>(rows, strips, block, sum);
#pragma GCC unroll 2
    for (std::size_t s = 0; s < kStrips; ++s) {
      F16 of_weights = f_set(1.0F);
      if constexpr (kHasGroups<kDot>) {
        const std::uint8_t* group = strips.scales + s * strips.stride + block * 32;
        of_weights = f_load_f16(reinterpret_cast<const std::uint16_t*>(group));
      }
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kRows; ++r) {
        float* acc = sums + s * sum_stride + r * 16;
        F16 scale = f_set(scales[r]);
        if constexpr (kHasGroups<kDot>) {
          scale = scale * of_weights;
        }
        f_store(acc, f_fused(f_of_signed(sum[r][s]), scale, f_load(acc)));
      }
    }
  }
}

template <IntDot kDot, std::size_t kRows, std::size_t kStrips>
PHALANX_LANES void add_int_dots(const IntRows<kRows>& rows,
                                const IntStrips& strips,
                                std::size_t blocks,
                                float* sums,
                                std::size_t sum_stride) {
  if constexpr (kDot == IntDot::kInt8Whole) {
    add_whole<kRows, kStrips>(rows, strips, blocks, sums, sum_stride);
  } else {
    add_scaled<kDot, kRows, kStrips>(rows, strips, blocks, sums, sum_stride);
  }
}

}  // namespace
}  // namespace phalanx::kernels
