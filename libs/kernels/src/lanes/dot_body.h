// SPDX-License-Identifier: Apache-2.0
#pragma once

// The bf16 dot product over packed strips.

#include "lanes/fetch_body.h"
#include "lanes/lanes.h"
#include "lanes/row_pointers.h"

namespace phalanx::kernels {
namespace {

// Strips of a packed matrix at equal distances, from some K element on: [k/2][16][2] bf16 each, or
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

// Of rows × strips: one sum over the even elements of K of a block, or the odd ones.
template <std::size_t kRows, std::size_t kStrips>
struct Chains {
  F16 of[kRows][kStrips];

  PHALANX_LANES void clear() {
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (std::size_t s = 0; s < kStrips; ++s) {
        of[r][s] = f_set(0.0F);
      }
    }
  }
};

// Registers hold all chains of a block. Where they do not, its weights are read twice, for the even
// elements and for the odd ones: for as many chains half as many weights are widened then, in place
// of which ports could multiply (Zen 3: 512 rows take 10 to 14 % less than in blocks of two rows).
template <std::size_t kRows, std::size_t kStrips>
inline constexpr bool kHoldsChains = 2 * kRows* kStrips <= kMaxChains;

// Adds the products of the first `count` of kBlockK elements of K: of the even ones, the odd ones,
// or both; of an odd `count` one more. Lines are fetched beside all of them.
template <std::size_t kBlockK,
          bool kEven,
          bool kOdd,
          std::size_t kRows,
          std::size_t kStrips,
          typename Element,
          typename Lines>
// Its inner loops are unrolled. NOLINTNEXTLINE(readability-function-size,*-cognitive-complexity)
PHALANX_LANES void add_products(const RowPointers<kRows>& of_row,
                                Strips<Element> strips,
                                std::size_t count,
                                Chains<kRows, kStrips>& even,
                                Chains<kRows, kStrips>& odd,
                                const Lines& lines) {
  // Not unrolled: see kFewBlockRows; of more rows, some sizes would not have registers enough.
#pragma GCC unroll 1
  for (std::size_t i = 0; i < count; i += 2) {
    F16 of_even[kStrips];
    F16 of_odd[kStrips];
#pragma GCC unroll 4
    for (std::size_t s = 0; s < kStrips; ++s) {
      const Element* weights = strips.first + s * strips.stride;
      if constexpr (kEven) {
        lines.line(weights, s, i);
        of_even[s] = load_even(weights);
      }
      if constexpr (kOdd) {
        of_odd[s] = load_odd(weights);
      }
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto* pair = static_cast<const float*>(of_row[r]) + i;
      const F16 first = f_set(pair[0]);
      const F16 second = f_set(pair[1]);
#pragma GCC unroll 4
      for (std::size_t s = 0; s < kStrips; ++s) {
        if constexpr (kEven) {
          even.of[r][s] = f_fused(first, of_even[s], even.of[r][s]);
        }
        if constexpr (kOdd) {
          odd.of[r][s] = f_fused(second, of_odd[s], odd.of[r][s]);
        }
      }
    }
    strips.first += 32;
  }
  for (std::size_t i = count + count % 2; kEven && i < kBlockK; i += 2) {
    for (std::size_t s = 0; s < kStrips; ++s) {
      lines.line(strips.first + s * strips.stride, s, i);
    }
    strips.first += 32;
  }
}

// sums[r][s][c] += dot(a[r][0 … k), column c of strip s), for kRows rows and kStrips strips at
// once.
//
//   a  [kRows, a_stride]  f32, the bf16 activations widened
//   k  a multiple of kBlockK, which is 32; or up to 16, which kBlockK is then, `a` being zero behind
//      them in all of 32
//   kLevel  where weights are fetched to; keys and values know it themselves
template <std::size_t kRows,
          std::size_t kStrips,
          std::size_t kBlockK = 32,
          CacheLevel kLevel = CacheLevel::kSecond,
          typename Element,
          typename Fetch>
PHALANX_LANES void add_dots(const float* a,
                            std::size_t a_stride,
                            Strips<Element> strips,
                            std::size_t k,
                            StripSums sums,
                            Fetch& fetch) {
  for (std::size_t block = 0; block < k; block += kBlockK) {
    const auto lines = fetch.template begin_block<kLevel>(strips.first);
    const RowPointers<kRows> of_row(a, a_stride * sizeof(float));
    Chains<kRows, kStrips> even;
    Chains<kRows, kStrips> odd;
    even.clear();
    odd.clear();
    const std::size_t count = kBlockK == 32 ? kBlockK : k;
    if constexpr (kHoldsChains<kRows, kStrips>) {
      add_products<kBlockK, true, true>(of_row, strips, count, even, odd, lines);
    } else {
      add_products<kBlockK, true, false>(of_row, strips, count, even, odd, lines);
      add_products<kBlockK, false, true>(of_row, strips, count, even, odd, lines);
    }
    strips.first += kBlockK * 16;
    a += kBlockK;
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (std::size_t s = 0; s < kStrips; ++s) {
        float* sum = sums.at(r, s);
        f_store(sum, f_load(sum) + (even.of[r][s] + odd.of[r][s]));
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
