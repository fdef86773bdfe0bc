// SPDX-License-Identifier: Apache-2.0
#pragma once

// The bf16 dot product over packed strips.

#include "lanes/fetch_body.h"
#include "lanes/lanes.h"
#include "lanes/row_pointers.h"

namespace phalanx::kernels {
namespace {

// Neighbouring strips of a packed matrix, from some K element on: [k/2][16][2] bf16 each, or
// [k][16] codes that are multiplied as they are.
template <typename Element>
struct Strips {
  const Element* first;
  std::size_t stride;  // elements from strip to strip
};

// Sums of rows × strips, 16 floats each.
struct StripSums {
  float* first;
  std::size_t row_stride;
  std::size_t strip_stride;

  [[nodiscard]] float* at(std::size_t row, std::size_t strip) const {
    return first + row * row_stride + strip * strip_stride;
  }
};

// sums[r][s][c] += dot(a[r][0 … k), column c of strip s), for kRows rows and kStrips strips at
// once.
//
//   a  [kRows, a_stride]  f32, the bf16 activations widened
//   k  a multiple of kBlockK, which is 32, or where that is all of k, the other half being zeros, 16
//   kLevel  where weights are fetched to; keys and values know it themselves
template <std::size_t kRows,
          std::size_t kStrips,
          std::size_t kBlockK = 32,
          CacheLevel kLevel = CacheLevel::kSecond,
          typename Element,
          typename Fetch>
// Its inner loops are unrolled. NOLINTNEXTLINE(readability-function-size,*-cognitive-complexity)
PHALANX_LANES void add_dots(const float* a,
                            std::size_t a_stride,
                            const Strips<Element>& strips,
                            std::size_t k,
                            StripSums sums,
                            Fetch& fetch) {
  const Element* weights = strips.first;
  for (std::size_t block = 0; block < k; block += kBlockK) {
    const auto lines = fetch.template begin_block<kLevel>(weights);
    const RowPointers<kRows> of_row(a, a_stride * sizeof(float));
    F16 even[kRows][kStrips];
    F16 odd[kRows][kStrips];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (std::size_t s = 0; s < kStrips; ++s) {
        even[r][s] = f_set(0.0F);
        odd[r][s] = f_set(0.0F);
      }
    }
    // Not unrolled: see kFewBlockRows; of more rows, some sizes would not have registers enough.
#pragma GCC unroll 1
    for (std::size_t i = 0; i < kBlockK; i += 2) {
      WeightPair w[kStrips];
#pragma GCC unroll 4
      for (std::size_t s = 0; s < kStrips; ++s) {
        lines.line(weights + s * strips.stride, s, i);
        w[s] = load_weights(weights + s * strips.stride);
      }
#pragma GCC unroll 8
      for (std::size_t r = 0; r < kRows; ++r) {
        const auto* pair = static_cast<const float*>(of_row[r]) + i;
        const F16 first = f_set(pair[0]);
        const F16 second = f_set(pair[1]);
#pragma GCC unroll 4
        for (std::size_t s = 0; s < kStrips; ++s) {
          even[r][s] = f_fused(first, w[s].even, even[r][s]);
          odd[r][s] = f_fused(second, w[s].odd, odd[r][s]);
        }
      }
      weights += 32;
    }
    a += kBlockK;
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (std::size_t s = 0; s < kStrips; ++s) {
        float* sum = sums.at(r, s);
        f_store(sum, f_load(sum) + (even[r][s] + odd[r][s]));
      }
    }
  }
}

// So many strips meet a block of rows at once.
template <std::size_t kRows>
inline constexpr std::size_t kBlockStrips = kRows > kMaxBlockRows ? 1 : kMaxBlockStrips;

// As add_dots(), for any number of strips, so many of them at once.
template <std::size_t kRows,
          std::size_t kBlockK = 32,
          std::size_t kStrips = kBlockStrips<kRows>,
          typename Element,
          typename Fetch>
// NOLINTNEXTLINE(readability-function-size): the parameters of add_dots() and a number
PHALANX_LANES void add_strips(const float* a,
                              std::size_t a_stride,
                              Strips<Element> strips,
                              std::size_t count,
                              std::size_t k,
                              StripSums sums,
                              Fetch& fetch) {
  for (; count >= kStrips; count -= kStrips) {
    add_dots<kRows, kStrips, kBlockK>(a, a_stride, strips, k, sums, fetch);
    strips.first += kStrips * strips.stride;
    sums.first += kStrips * sums.strip_stride;
  }
  if constexpr (kStrips > 1) {
    for (; count > 0; --count) {
      add_dots<kRows, 1, kBlockK>(a, a_stride, strips, k, sums, fetch);
      strips.first += strips.stride;
      sums.first += sums.strip_stride;
    }
  }
}

// Widens `count` bf16 numbers and adds zeros up to `padded`, a multiple of 16.
PHALANX_LANES void widen(const std::uint16_t* from,
                         std::size_t count,
                         float* to,
                         std::size_t padded) {
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    f_store(to + i, f_load_bf16(from + i, 16));
  }
  for (; i < padded; i += 16) {
    f_store(to + i, f_load_bf16(from + i, i < count ? count - i : 0));
  }
}

}  // namespace
}  // namespace phalanx::kernels
