// SPDX-License-Identifier: Apache-2.0
#pragma once

// The bf16 dot product over a packed strip.

#include "lanes/lanes.h"

namespace phalanx::kernels {
namespace {

// Prefetching hides the latency of memory; with many rows the arithmetic does.
inline constexpr std::size_t kPrefetchRows = 4;
inline constexpr std::size_t kPrefetchElements = 640;  // 1280 bytes ahead

// sums[r][c] += dot(a[r][0 … k), column c of the strip), for kRows rows at once.
//
//   a     [kRows, a_stride]  f32, the bf16 activations widened
//   strip [k/2][16][2]       k a multiple of 32
//   sums  [kRows, 16]
template <std::size_t kRows>
PHALANX_LANES void add_dots(
    const float* a, std::size_t a_stride, const std::uint16_t* strip, std::size_t k, float* sums) {
  F16 sum[kRows];
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRows; ++r) {
    sum[r] = f_load(sums + r * 16);
  }
  for (std::size_t block = 0; block < k; block += 32) {
    F16 even[kRows];
    F16 odd[kRows];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      even[r] = f_set(0.0F);
      odd[r] = f_set(0.0F);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 32; i += 2) {
      if constexpr (kRows <= kPrefetchRows) {
        prefetch(strip + kPrefetchElements);
      }
      const WeightPair w = load_weights(strip);
      const float* pair = a + i;
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kRows; ++r) {
        const float* of_row = pair + r * a_stride;
        even[r] = f_fused(f_set(of_row[0]), w.even, even[r]);
        odd[r] = f_fused(f_set(of_row[1]), w.odd, odd[r]);
      }
      strip += 32;
    }
    a += 32;
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      sum[r] = sum[r] + (even[r] + odd[r]);
    }
  }
#pragma GCC unroll 8
  for (std::size_t r = 0; r < kRows; ++r) {
    f_store(sums + r * 16, sum[r]);
  }
}

// Widens `count` bf16 numbers and adds zeros up to `padded`, a multiple of 16.
PHALANX_LANES void widen(const std::uint16_t* from,
                         std::size_t count,
                         float* to,
                         std::size_t padded) {
  for (std::size_t i = 0; i < padded; i += 16) {
    f_store(to + i, f_load_bf16(from + i, i < count ? count - i : 0));
  }
}

}  // namespace
}  // namespace phalanx::kernels
