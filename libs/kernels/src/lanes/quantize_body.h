// SPDX-License-Identifier: Apache-2.0
#pragma once

// Activations as integers.

#include "phalanx/kernels/quantize.h"

#include "lanes/lanes.h"
#include "lanes/rows_body.h"

namespace phalanx::kernels {
namespace {

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

// The codes of the leaf begin at `at`.
PHALANX_LANES void code_leaf(const float* x,
                             std::size_t k,
                             const QuantizedRows& out,
                             std::size_t at) {
  const bool of_blocks = out.span == ScaleSpan::kBlock;
  CodeScale scale = {0.0F, 0.0F};
  if (!of_blocks) {
    scale = code_scale(x, k);
  }
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < k; i += 32) {
    const std::size_t count = k - i < 32 ? k - i : 32;
    if (of_blocks) {
      scale = code_scale(x + i, count);
      sum = 0;
    }
    sum += code_block(x + i, count, scale, out, at + i);
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
