// SPDX-License-Identifier: Apache-2.0
#pragma once

// The bf16 dot product over packed strips.

#include "lanes/factors.h"
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
// or both; and of those that a step takes with the last of them. Lines are fetched beside all.
template <std::size_t kBlockK,
          bool kEven,
          bool kOdd,
          typename Factor,
          std::size_t kRows,
          std::size_t kStrips,
          typename Element,
          typename Lines>
// Its inner loops are unrolled. NOLINTNEXTLINE(readability-function-size,*-cognitive-complexity)
PHALANX_LANES void add_products(const typename Multiplier<Factor>::template Rows<kRows>& of_row,
                                Strips<Element> strips,
                                std::size_t count,
                                Chains<kRows, kStrips>& even,
                                Chains<kRows, kStrips>& odd,
                                const Lines& lines) {
  using By = Multiplier<Factor>;
  constexpr std::size_t kStep = 2 * By::kLines;
  std::size_t i = 0;
  // Not unrolled: see kFewBlockRows; of more rows, some sizes would not have registers enough.
#pragma GCC unroll 1
  for (; i < count; i += kStep) {
    typename By::Weights of_even[kStrips];
    typename By::Weights of_odd[kStrips];
#pragma GCC unroll 4
    for (std::size_t s = 0; s < kStrips; ++s) {
      const Element* weights = strips.first + s * strips.stride;
      if constexpr (kEven) {
        for (std::size_t line = 0; line < By::kLines; ++line) {
          lines.line(weights + 32 * line, s, i + 2 * line);
        }
        of_even[s] = By::even(weights);
      }
      if constexpr (kOdd) {
        of_odd[s] = By::odd(weights);
      }
    }
    const auto rows = of_row.from(factors_of<Factor>(i) * sizeof(Factor));
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto* pair = static_cast<const Factor*>(rows[r]);
#pragma GCC unroll 4
      for (std::size_t s = 0; s < kStrips; ++s) {
        constexpr bool kIsOnce = kStrips == 1;
        if constexpr (kEven) {
          even.of[r][s] = By::template add<kIsOnce>(even.of[r][s], pair, of_even[s]);
        }
        if constexpr (kOdd) {
          odd.of[r][s] = By::template add<kIsOnce>(odd.of[r][s], pair + 1, of_odd[s]);
        }
      }
    }
    strips.first += 32 * By::kLines;
  }
  for (; kEven && i < kBlockK; i += 2) {
    for (std::size_t s = 0; s < kStrips; ++s) {
      lines.line(strips.first + s * strips.stride, s, i);
    }
    strips.first += 32;
  }
}

// sums[r][s][c] += dot(a[r][0 … k), column c of strip s), for kRows rows and kStrips strips at
// once.
//
//   a  [kRows]  factors of the bf16 activations
//   k  a multiple of kBlockK, which is 32; or up to 16, which kBlockK is then, `a` being zero behind
//      them in all of 32
//   kLevel  where weights are fetched to; keys and values know it themselves
template <std::size_t kRows,
          std::size_t kStrips,
          std::size_t kBlockK = 32,
          CacheLevel kLevel = CacheLevel::kSecond,
          typename Factor,
          typename Element,
          typename Fetch>
PHALANX_LANES void add_dots(
    FactorRows<Factor> a, Strips<Element> strips, std::size_t k, StripSums sums, Fetch& fetch) {
  for (std::size_t block = 0; block < k; block += kBlockK) {
    const auto lines = fetch.template begin_block<kLevel>(strips.first);
    const typename Multiplier<Factor>::template Rows<kRows> of_row(a.first,
                                                                   a.strides.row * sizeof(Factor));
    Chains<kRows, kStrips> even;
    Chains<kRows, kStrips> odd;
    even.clear();
    odd.clear();
    const std::size_t count = kBlockK == 32 ? kBlockK : k;
    if constexpr (kHoldsChains<kRows, kStrips>) {
      add_products<kBlockK, true, true, Factor>(of_row, strips, count, even, odd, lines);
    } else {
      add_products<kBlockK, true, false, Factor>(of_row, strips, count, even, odd, lines);
      add_products<kBlockK, false, true, Factor>(of_row, strips, count, even, odd, lines);
    }
    strips.first += kBlockK * 16;
    a.first += a.strides.block;
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
          typename Factor,
          typename Element,
          typename Fetch>
// NOLINTNEXTLINE(readability-function-size): the parameters of add_dots() and a number
PHALANX_LANES void add_strips(FactorRows<Factor> a,
                              Strips<Element> strips,
                              std::size_t count,
                              std::size_t k,
                              StripSums sums,
                              Fetch& fetch) {
  for (; count >= kStrips; count -= kStrips) {
    add_dots<kRows, kStrips, kBlockK>(a, strips, k, sums, fetch);
    strips.first += kStrips * strips.stride;
    sums.first += kStrips * sums.strip_stride;
  }
  if constexpr (kStrips > 1) {
    for (; count > 0; --count) {
      add_dots<kRows, 1, kBlockK>(a, strips, k, sums, fetch);
      strips.first += strips.stride;
      sums.first += sums.strip_stride;
    }
  }
}

}  // namespace
}  // namespace phalanx::kernels
