// SPDX-License-Identifier: Apache-2.0
#pragma once

// Activations as integers.

#include "phalanx/kernels/quantize.h"

#include "lanes/lanes.h"
#include "lanes/rows_body.h"

namespace phalanx::kernels {
namespace {

// The first `count` lanes; zeros beyond, which are not read.
PHALANX_LANES I16 i_load_first(const std::int32_t* p, std::size_t count) {
  return i_bits(f_load_first(reinterpret_cast<const float*>(p), count));
}
PHALANX_LANES void i_store_first(std::int32_t* p, I16 a, std::size_t count) {
  f_store_first(reinterpret_cast<float*>(p), f_bits(a), count);
}

struct CodeScale {
  float scale;
  float inverse;  // 0: every code is 0
};

// The largest magnitude of `count` numbers by its bits, which order as the magnitudes do; kInfinite
// or above if one of them is not finite.
inline constexpr std::uint32_t kInfinite = 0x7F800000;
PHALANX_LANES std::uint32_t largest_bits(const float* x, std::size_t count) {
  I16 largest = i_set(0);
  for (std::size_t i = 0; i < count; i += 16) {
    largest = i_larger(largest, i_bits(f_load_first(x + i, count - i)) & i_set(0x7FFFFFFF));
  }
  return i_largest(largest);
}

PHALANX_LANES CodeScale code_scale(const float* x, std::size_t count) {
  const std::uint32_t bits = largest_bits(x, count);
  if (bits >= kInfinite) {
    return {__builtin_nanf(""), 0.0F};
  }
  const float amax = __builtin_bit_cast(float, bits);
  if (amax < kSmallestCoded) {
    return {0.0F, 0.0F};
  }
  return {amax / 127.0F, 127.0F / amax};
}

// 16 codes, zeros from `count` on.
PHALANX_LANES I16 some_codes(const float* x, std::size_t count, float inverse) {
  return i_nearest(f_load_first(x, count) * f_set(inverse));
}

// One block of 32 codes, and their sum; x has `count` ≤ 32 elements.
PHALANX_LANES std::int32_t code_block(
    const float* x, std::size_t count, CodeScale scale, const QuantizedRows& out, std::size_t at) {
  I16 low = i_set(0);
  I16 high = i_set(0);
  if (scale.inverse != 0.0F) {
    low = some_codes(x, count, scale.inverse);
    if (count > 16) {
      high = some_codes(x + 16, count - 16, scale.inverse);
    }
  }
  i_store_bytes(out.codes + at, low);
  i_store_bytes(out.codes + at + 16, high);
  out.scales[at / 32] = scale.scale;
  return i_sum(low + high);
}

// Up to 8 whole blocks with a scale each. False, and nothing is written, where one of them is not
// of ordinary magnitudes.
PHALANX_LANES bool code_eight_blocks(const float* x,
                                     std::size_t blocks,
                                     const QuantizedRows& out,
                                     std::size_t at) {
  I16 numbers[8];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < 8; ++i) {
    const float* block = x + (i < blocks ? i : 0) * 32;
    const I16 magnitude = i_set(0x7FFFFFFF);
    numbers[i] =
        i_larger(i_bits(f_load(block)) & magnitude, i_bits(f_load(block + 16)) & magnitude);
  }
  const I16 largest = i_largest_of_eight(numbers);
  const F16 amax = f_bits(largest);
  const I16 below_infinite = i_set(kInfinite - 1);
  const M16 lawless = is_above(largest, below_infinite) | is_less(amax, f_set(kSmallestCoded));
  if ((m_bits(lawless) & 0xFF) != 0) {
    return false;
  }
  alignas(64) float inverses[16];
  f_store(inverses, f_set(127.0F) / amax);
  f_store_first(out.scales + at / 32, amax / f_set(127.0F), blocks);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < 8; ++i) {
    if (i < blocks) {
      const F16 inverse = f_set(inverses[i]);
      const I16 low = i_nearest(f_load(x + i * 32) * inverse);
      const I16 high = i_nearest(f_load(x + i * 32 + 16) * inverse);
      i_store_bytes(out.codes + at + i * 32, low);
      i_store_bytes(out.codes + at + i * 32 + 16, high);
      numbers[i] = low + high;
    }
  }
  i_store_first(out.sums + at / 32, i_sum_of_eight(numbers), blocks);
  return true;
}

// As code_leaf(), with a scale for each block.
PHALANX_LANES void code_blocks(const float* x,
                               std::size_t k,
                               const QuantizedRows& out,
                               std::size_t at) {
  for (std::size_t i = 0; i < k; i += 256) {
    const std::size_t left = k - i < 256 ? k - i : 256;
    const std::size_t whole = left / 32;
    std::size_t done = 0;
    if (whole > 2 && code_eight_blocks(x + i, whole, out, at + i)) {
      done = whole * 32;
    }
    for (; done < left; done += 32) {
      const std::size_t count = left - done < 32 ? left - done : 32;
      const std::size_t block = at + i + done;
      const CodeScale scale = code_scale(x + i + done, count);
      out.sums[block / 32] = code_block(x + i + done, count, scale, out, block);
    }
  }
}

// The codes of the leaf begin at `at`.
PHALANX_LANES void code_leaf(const float* x,
                             std::size_t k,
                             const QuantizedRows& out,
                             std::size_t at) {
  if (out.span == ScaleSpan::kBlock) {
    code_blocks(x, k, out, at);
    return;
  }
  const CodeScale scale = code_scale(x, k);
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < k; i += 32) {
    sum += code_block(x + i, k - i < 32 ? k - i : 32, scale, out, at + i);
    out.sums[(at + i) / 32] = sum;
  }
}

inline void quantize_tile(const QuantizeArgs& args, std::uint32_t tile) {
  const std::uint32_t end = end_of_row_tile(tile, args.rows);
  for (std::size_t row = std::size_t{tile} * kRowTile; row < end; ++row) {
    std::size_t at = row * args.out.code_stride;
    for (std::uint32_t i = 0; i < args.leaf_count; ++i) {
      const QuantizeLeaf& leaf = args.leaves[i];
      code_leaf(args.x + row * args.x_stride + leaf.first_k, leaf.k, args.out, at);
      at += (std::size_t{leaf.k} + 31) / 32 * 32;
    }
  }
}

}  // namespace
}  // namespace phalanx::kernels
