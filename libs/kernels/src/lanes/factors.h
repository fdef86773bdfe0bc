// SPDX-License-Identifier: Apache-2.0
#pragma once

// How numbers of a row become what products of bf16 are made of: one register of weights holds 16
// columns, and the number of a row is spread over it.

#include <cstddef>
#include <cstdint>

#include "lanes/lanes.h"
#include "lanes/row_pointers.h"

namespace phalanx::kernels {
namespace {

// Of a factor:
//
//   kNumbers  of a row in it: `factors_of(n)` hold n of them
//   kInBlocks whether the rows of a product lie together block by block of K, or one behind the
//             other
//   Rows      of so many rows, where they are read from
//   kLines    of weights, a pair of elements of K each, that a step of a chain takes. For it a row
//             has a factor of even elements and one of odd ones, in this order
//   Weights   a register of them
//   even(), odd()   of the lines of a step
//   add<kIsOnce>()  sum + products, rounded as the chain says; kIsOnce: of this factor there is no
//             other product
template <typename Factor>
struct Multiplier;

// A number as a float.
template <>
struct Multiplier<float> {
  static constexpr std::size_t kNumbers = 1;
  static constexpr bool kInBlocks = false;
  template <std::size_t kRows>
  using Rows = RowPointers<kRows>;
  static constexpr std::size_t kLines = 1;
  using Weights = F16;

  template <typename Element>
  PHALANX_LANES static Weights even(const Element* lines) {
    return load_even(lines);
  }
  template <typename Element>
  PHALANX_LANES static Weights odd(const Element* lines) {
    return load_odd(lines);
  }
  template <bool /*kIsOnce*/>
  PHALANX_LANES static F16 add(F16 sum, const float* factor, Weights weights) {
    return f_fused(f_set(*factor), weights, sum);
  }
};

template <typename Factor>
PHALANX_LANES constexpr std::size_t factors_of(std::size_t numbers) {
  return numbers / Multiplier<Factor>::kNumbers;
}
template <typename Factor>
inline constexpr std::size_t kBlockFactors = factors_of<Factor>(32);

// Factors of rows × K, those of 32 elements of a row together: so many from row to row, and to the
// next 32 of the same row.
struct FactorStrides {
  std::size_t row;
  std::size_t block;
};
template <typename Factor>
struct FactorRows {
  const Factor* first;
  FactorStrides strides;
};

// 32 numbers of a row, of which the first `count` are read and the others are zeros.
PHALANX_LANES void store_block(float* to, const std::uint16_t* from, std::size_t count = 32) {
  f_store(to, f_load_bf16(from, count));
  f_store(to + 16, f_load_bf16(from + 16, count > 16 ? count - 16 : 0));
}
// The same 32, from floats that are bf16 numbers.
PHALANX_LANES void store_block(float* to, F16 low, F16 high) {
  f_store(to, low);
  f_store(to + 16, high);
}

#ifdef __AVX512BF16__

// Two bf16 numbers that follow one another in a chain: the first one in the upper half, where
// VDPBF16PS begins. It adds one product after the other, each rounded once, denormals being zeros
// (docs/arithmetic.md, "Dot product"): two links of a chain.
struct ChainPair {
  std::uint32_t bits;
};

template <>
struct Multiplier<ChainPair> {
  static constexpr std::size_t kNumbers = 2;
  static constexpr bool kInBlocks = true;
  template <std::size_t /*kRows*/>
  using Rows = NearRows;
  static constexpr std::size_t kLines = 2;
  using Weights = I16;

  PHALANX_LANES static Weights even(const std::uint16_t* lines) {
    const __m512i first = _mm512_slli_epi32(_mm512_loadu_si512(lines), 16);
    return {_mm512_mask_blend_epi16(kUpper, _mm512_loadu_si512(lines + kLine), first)};
  }
  PHALANX_LANES static Weights odd(const std::uint16_t* lines) {
    const __m512i second = _mm512_srli_epi32(_mm512_loadu_si512(lines + kLine), 16);
    return {_mm512_mask_blend_epi16(kUpper, second, _mm512_loadu_si512(lines))};
  }
  template <bool kIsOnce>
  PHALANX_LANES static F16 add(F16 sum, const ChainPair* factor, Weights weights) {
    if constexpr (kIsOnce) {
      // Spread as it is loaded, which g++ 12 does not do by itself.
      asm("vdpbf16ps %1%{1to16%}, %2, %0" : "+v"(sum.v) : "m"(factor->bits), "v"(weights.v));
      return sum;
    } else {
      return {_mm512_dpbf16_ps(sum.v,
                               __builtin_bit_cast(__m512bh, weights.v),
                               __builtin_bit_cast(__m512bh, i_set(factor->bits).v))};
    }
  }

 private:
  static constexpr std::size_t kLine = 32;
  static constexpr __mmask32 kUpper = 0xAAAAAAAA;
};

PHALANX_LANES void store_block(ChainPair* to, const std::uint16_t* from, std::size_t count = 32) {
  const __mmask32 some = count >= 32 ? 0xFFFFFFFFU : (1U << count) - 1;
  // Of numbers 0 1 2 3 those of even places, 2 and 0, and those of odd ones, 3 and 1.
  const __m512i places =
      _mm512_broadcast_i32x4(_mm_setr_epi8(4, 5, 0, 1, 6, 7, 2, 3, 12, 13, 8, 9, 14, 15, 10, 11));
  _mm512_storeu_si512(to, _mm512_shuffle_epi8(_mm512_maskz_loadu_epi16(some, from), places));
}
PHALANX_LANES void store_block(ChainPair* to, F16 low, F16 high) {
  const __m512i first = _mm512_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29);
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(2));
  const I16 upper{_mm512_permutex2var_epi32(i_bits(low).v, first, i_bits(high).v)};
  const I16 lower{_mm512_permutex2var_epi32(i_bits(low).v, second, i_bits(high).v)};
  _mm512_storeu_si512(to, (upper | i_right<16>(lower)).v);
}

#endif  // __AVX512BF16__

// Stores `count` numbers of a row and zeros up to `padded`, a multiple of 32.
template <typename Factor>
PHALANX_LANES void store_row(Factor* to,
                             const std::uint16_t* from,
                             std::size_t count,
                             std::size_t padded,
                             std::size_t block_stride = kBlockFactors<Factor>) {
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32, to += block_stride) {
    store_block(to, from + i);
  }
  for (; i < padded; i += 32, to += block_stride) {
    store_block(to, from + i, i < count ? count - i : 0);
  }
}

}  // namespace
}  // namespace phalanx::kernels
