// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "lanes/data_path.h"

// The 16 virtual lanes of the arithmetic in two AVX2 registers; see avx512_lanes.h.

#define PHALANX_LANES [[gnu::always_inline]] inline

namespace phalanx::kernels {
namespace {

// A chain of a strip has two of sixteen registers. Four rows are eight of them, which multipliers
// need to be busy (two at once, each for four cycles), and no more are stored at once: of more
// stores that wait for a sum Zen 3 loses a cycle each.
inline constexpr std::size_t kMaxBlockRows = 4;
template <DataPath kPath>
inline constexpr std::size_t kRowsAtOnce = kMaxBlockRows;
inline constexpr std::size_t kMaxBlockStrips = 1;
inline constexpr std::size_t kMaxChains = 6;
// So few rows of bf16 take all that memory gives, two strips at once. Zen 3 gives most to two
// streams that it fetches ahead of by itself: a thread reads 16 to 20 GB/s so, and 10 to 13 where
// instructions fetch.
inline constexpr std::size_t kRowsOfTwoStreams = 2;
inline constexpr std::size_t kMaxRowsByPages = 0;  // computes no halves of 512 bits

struct F16 {
  __m256 a;  // lanes 0 … 7
  __m256 b;  // lanes 8 … 15
};
struct I16 {
  __m256i a;
  __m256i b;
};
struct M16 {  // all bits of a lane set, or none
  __m256i a;
  __m256i b;
};

PHALANX_LANES M16 m_first(std::size_t count) {
  const int n = count >= 16 ? 16 : static_cast<int>(count);
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane),
          _mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8), lane)};
}
PHALANX_LANES M16 m_range(std::size_t begin, std::size_t end) {  // lanes begin … end − 1
  const M16 before = m_first(begin);
  const M16 upto = m_first(end);
  return {_mm256_andnot_si256(before.a, upto.a), _mm256_andnot_si256(before.b, upto.b)};
}

PHALANX_LANES F16 f_set(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
PHALANX_LANES F16 f_load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
// The first `count` lanes; zeros beyond, which are not read.
PHALANX_LANES F16 f_load_first(const float* p, std::size_t count) {
  if (count >= 16) {
    return f_load(p);
  }
  const M16 m = m_first(count);
  return {_mm256_maskload_ps(p, m.a), _mm256_maskload_ps(p + 8, m.b)};
}
PHALANX_LANES void f_store(float* p, F16 x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
PHALANX_LANES void f_store_first(float* p, F16 x, std::size_t count) {
  if (count >= 16) {
    f_store(p, x);
    return;
  }
  const M16 m = m_first(count);
  _mm256_maskstore_ps(p, m.a, x.a);
  _mm256_maskstore_ps(p + 8, m.b, x.b);
}
PHALANX_LANES F16 operator+(F16 x, F16 y) {
  return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
PHALANX_LANES F16 operator-(F16 x, F16 y) {
  return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
PHALANX_LANES F16 operator*(F16 x, F16 y) {
  return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
PHALANX_LANES F16 operator/(F16 x, F16 y) {
  return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
PHALANX_LANES F16 f_fused(F16 x, F16 y, F16 z) {  // x · y + z, rounded once
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
PHALANX_LANES F16 f_larger(F16 x, F16 y) {  // x > y ? x : y, so y when x is NaN
  return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
PHALANX_LANES F16 f_smaller(F16 x, F16 y) {  // x < y ? x : y
  return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
PHALANX_LANES float f_first(F16 x) {
  return _mm256_cvtss_f32(x.a);
}

PHALANX_LANES I16 i_set(std::uint32_t x) {
  return {_mm256_set1_epi32(static_cast<int>(x)), _mm256_set1_epi32(static_cast<int>(x))};
}
PHALANX_LANES I16 i_iota() {
  return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
          _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
}
PHALANX_LANES void i_store(std::uint32_t* p, I16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), x.b);
}
PHALANX_LANES I16 i_bits(F16 x) {
  return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)};
}
PHALANX_LANES F16 f_bits(I16 x) {
  return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
}
PHALANX_LANES I16 operator+(I16 x, I16 y) {
  return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}
PHALANX_LANES I16 operator-(I16 x, I16 y) {
  return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)};
}
PHALANX_LANES I16 operator&(I16 x, I16 y) {
  return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
}
PHALANX_LANES I16 operator|(I16 x, I16 y) {
  return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
}
PHALANX_LANES I16 operator^(I16 x, I16 y) {
  return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)};
}
template <int kBits>
PHALANX_LANES I16 i_left(I16 x) {
  return {_mm256_slli_epi32(x.a, kBits), _mm256_slli_epi32(x.b, kBits)};
}
template <int kBits>
PHALANX_LANES I16 i_right(I16 x) {
  return {_mm256_srli_epi32(x.a, kBits), _mm256_srli_epi32(x.b, kBits)};
}
template <int kBits>
PHALANX_LANES I16 i_right_signed(I16 x) {
  return {_mm256_srai_epi32(x.a, kBits), _mm256_srai_epi32(x.b, kBits)};
}
PHALANX_LANES F16 f_of_signed(I16 x) {
  return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}
// AVX2 converts signed numbers only. Both halves are exact as floats, and so is the upper one times
// 2^16: the sum is the only rounding.
PHALANX_LANES F16 f_of_unsigned(I16 x) {
  return f_of_signed(i_right<16>(x)) * f_set(0x1p16F) + f_of_signed(x & i_set(0xFFFF));
}
PHALANX_LANES I16 i_nearest(F16 x) {
  return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
}
// x · 2^n, with one rounding. Requires integers from −126 to 128. In two steps: 2^128 is no float.
PHALANX_LANES F16 f_scaled(F16 x, F16 n) {
  const I16 all = i_nearest(n);
  const I16 half = i_right_signed<1>(all);
  const I16 bias = i_set(127);
  return x * f_bits(i_left<23>(half + bias)) * f_bits(i_left<23>((all - half) + bias));
}
// The same to 127. The low bits of `biased` are n + 127.
PHALANX_LANES F16 f_scaled_normal(F16 x, F16 /*n*/, I16 biased) {
  return x * f_bits(i_left<23>(biased));
}

template <int kPredicate>
PHALANX_LANES M16 compare(F16 x, F16 y) {
  return {_mm256_castps_si256(_mm256_cmp_ps(x.a, y.a, kPredicate)),
          _mm256_castps_si256(_mm256_cmp_ps(x.b, y.b, kPredicate))};
}
PHALANX_LANES M16 is_greater(F16 x, F16 y) {
  return compare<_CMP_GT_OQ>(x, y);
}
PHALANX_LANES M16 is_less(F16 x, F16 y) {
  return compare<_CMP_LT_OQ>(x, y);
}
PHALANX_LANES M16 is_equal(F16 x, F16 y) {
  return compare<_CMP_EQ_OQ>(x, y);
}
PHALANX_LANES M16 is_nan(F16 x) {
  return compare<_CMP_UNORD_Q>(x, x);
}
PHALANX_LANES M16 is_equal(I16 x, I16 y) {
  return {_mm256_cmpeq_epi32(x.a, y.a), _mm256_cmpeq_epi32(x.b, y.b)};
}
PHALANX_LANES M16 is_above(I16 x, I16 y) {  // as unsigned numbers
  const I16 sign = i_set(0x80000000);
  const I16 p = x ^ sign;
  const I16 q = y ^ sign;
  return {_mm256_cmpgt_epi32(p.a, q.a), _mm256_cmpgt_epi32(p.b, q.b)};
}
PHALANX_LANES M16 operator&(M16 x, M16 y) {
  return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
}
PHALANX_LANES M16 operator|(M16 x, M16 y) {
  return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
}
PHALANX_LANES std::uint32_t m_bits(M16 m) {
  const int low = _mm256_movemask_ps(_mm256_castsi256_ps(m.a));
  const int high = _mm256_movemask_ps(_mm256_castsi256_ps(m.b));
  return static_cast<std::uint32_t>(low) | (static_cast<std::uint32_t>(high) << 8);
}
PHALANX_LANES I16 choose(M16 m, I16 yes, I16 no) {
  return {_mm256_blendv_epi8(no.a, yes.a, m.a), _mm256_blendv_epi8(no.b, yes.b, m.b)};
}
PHALANX_LANES F16 choose(M16 m, F16 yes, F16 no) {
  return f_bits(choose(m, i_bits(yes), i_bits(no)));
}

PHALANX_LANES F16 f_widen(__m128i low, __m128i high) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(low), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(high), 16))};
}
// 16 bf16 numbers as floats; only the first `count` are read, the others are zeros.
PHALANX_LANES F16 f_load_bf16(const std::uint16_t* p, std::size_t count) {
  alignas(32) std::uint16_t part[16] = {};
  if (count < 16) {
    for (std::size_t i = 0; i < count; ++i) {
      part[i] = p[i];
    }
    p = part;
  }
  return f_widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)),
                 _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)));
}
// Stores the low half of each lane, the first `count` lanes. Requires the upper halves to be zero.
PHALANX_LANES void i_store_low(std::uint16_t* p, I16 x, std::size_t count) {
  // The pack works within 128 bits: quarters come out as 0, 2, 1, 3.
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(x.a, x.b), 0xD8);
  if (count >= 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), packed);
    return;
  }
  alignas(32) std::uint16_t part[16];
  _mm256_store_si256(reinterpret_cast<__m256i*>(part), packed);
  for (std::size_t i = 0; i < count; ++i) {
    p[i] = part[i];
  }
}

// The even and the odd K elements of a row of a packed strip: 16 columns of both.
PHALANX_LANES I16 load_pairs(const std::uint16_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 16))};
}
PHALANX_LANES F16 load_even(const std::uint16_t* p) {
  return f_bits(i_left<16>(load_pairs(p)));
}
PHALANX_LANES F16 load_odd(const std::uint16_t* p) {
  return f_bits(load_pairs(p) & i_set(0xFFFF0000U));
}

// Halves are added until one lane is left: lane i + lane i+8, then +4, +2, +1.
PHALANX_LANES void store_eight_columns(std::uint32_t* p,
                                       std::size_t stride,
                                       const __m256i (&rows)[8],
                                       std::size_t count) {
  __m256i fours[2][4];  // [rows][lanes]: lanes l and l + 4 of four rows
#pragma GCC unroll 2
  for (std::size_t half = 0; half < 2; ++half) {
    const __m256i* of = rows + half * 4;
    const __m256i low01 = _mm256_unpacklo_epi32(of[0], of[1]);
    const __m256i high01 = _mm256_unpackhi_epi32(of[0], of[1]);
    const __m256i low23 = _mm256_unpacklo_epi32(of[2], of[3]);
    const __m256i high23 = _mm256_unpackhi_epi32(of[2], of[3]);
    fours[half][0] = _mm256_unpacklo_epi64(low01, low23);
    fours[half][1] = _mm256_unpackhi_epi64(low01, low23);
    fours[half][2] = _mm256_unpacklo_epi64(high01, high23);
    fours[half][3] = _mm256_unpackhi_epi64(high01, high23);
  }
#pragma GCC unroll 4
  for (std::size_t lane = 0; lane < 4; ++lane) {
    if (lane < count) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + lane * stride),
                          _mm256_permute2x128_si256(fours[0][lane], fours[1][lane], 0x20));
    }
    if (lane + 4 < count) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + (lane + 4) * stride),
                          _mm256_permute2x128_si256(fours[0][lane], fours[1][lane], 0x31));
    }
  }
}
// The first `count` lanes of eight rows become lines of eight numbers, so many numbers from one to
// the next.
PHALANX_LANES void i_store_columns(std::uint32_t* p,
                                   std::size_t stride,
                                   const I16 (&rows)[8],
                                   std::size_t count) {
  __m256i halves[2][8];
#pragma GCC unroll 8
  for (std::size_t row = 0; row < 8; ++row) {
    halves[0][row] = rows[row].a;
    halves[1][row] = rows[row].b;
  }
  store_eight_columns(p, stride, halves[0], count);
  if (count > 8) {
    store_eight_columns(p + 8 * stride, stride, halves[1], count - 8);
  }
}
PHALANX_LANES float f_sum(F16 x) {
  const __m256 by8 = _mm256_add_ps(x.a, x.b);
  const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
}
PHALANX_LANES float f_largest(F16 x) {  // requires no NaN
  const __m256 by8 = _mm256_max_ps(x.a, x.b);
  const __m128 by4 = _mm_max_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_max_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_max_ss(by2, _mm_movehdup_ps(by2)));
}
// f_largest() of each of some numbers.
template <std::size_t kCount>
PHALANX_LANES void f_largest_of(const F16 (&a)[kCount], float (&to)[kCount]) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kCount; ++i) {
    to[i] = f_largest(a[i]);
  }
}

// A sum of many int32 in 64 bits.
struct WideSum {
  __m256i v;
};
PHALANX_LANES WideSum wide_zero() {
  return {_mm256_setzero_si256()};
}
PHALANX_LANES __m256i widened_sum(__m256i x) {
  return _mm256_add_epi64(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(x)),
                          _mm256_cvtepi32_epi64(_mm256_extracti128_si256(x, 1)));
}
PHALANX_LANES WideSum wide_add(WideSum sum, I16 x) {
  return {_mm256_add_epi64(sum.v, _mm256_add_epi64(widened_sum(x.a), widened_sum(x.b)))};
}
PHALANX_LANES std::int64_t wide_total(WideSum sum) {
  return _mm256_extract_epi64(sum.v, 0) + _mm256_extract_epi64(sum.v, 1) +
         _mm256_extract_epi64(sum.v, 2) + _mm256_extract_epi64(sum.v, 3);
}

// Both halves of the 64-bit products of unsigned numbers.
struct Product {
  I16 high;
  I16 low;
};
PHALANX_LANES void multiply_half(__m256i x, __m256i factor, __m256i* high, __m256i* low) {
  const __m256i even = _mm256_mul_epu32(x, factor);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), factor);
  *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
  *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}
PHALANX_LANES Product i_multiply(I16 x, std::uint32_t y) {
  const __m256i factor = _mm256_set1_epi64x(y);
  Product product;
  multiply_half(x.a, factor, &product.high.a, &product.low.a);
  multiply_half(x.b, factor, &product.high.b, &product.low.b);
  return product;
}

PHALANX_LANES void transpose_half(__m256i* r0, __m256i* r1, __m256i* r2, __m256i* r3) {
  const __m256i t0 = _mm256_unpacklo_epi32(*r0, *r1);
  const __m256i t1 = _mm256_unpackhi_epi32(*r0, *r1);
  const __m256i t2 = _mm256_unpacklo_epi32(*r2, *r3);
  const __m256i t3 = _mm256_unpackhi_epi32(*r2, *r3);
  *r0 = _mm256_unpacklo_epi64(t0, t2);
  *r1 = _mm256_unpackhi_epi64(t0, t2);
  *r2 = _mm256_unpacklo_epi64(t1, t3);
  *r3 = _mm256_unpackhi_epi64(t1, t3);
}
// rows[j] lane 4k + i becomes rows[i] lane 4k + j: a transposition of each group of four lanes.
PHALANX_LANES void transpose_fours(I16 (&rows)[4]) {
  transpose_half(&rows[0].a, &rows[1].a, &rows[2].a, &rows[3].a);
  transpose_half(&rows[0].b, &rows[1].b, &rows[2].b, &rows[3].b);
}

// 1/√x by the correctly rounded instructions.
PHALANX_LANES float inverse_square_root(float x) {
  return 1.0F / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)));
}

PHALANX_LANES void prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}
// Into the cache behind the first one.
PHALANX_LANES void prefetch_second(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
}

}  // namespace
}  // namespace phalanx::kernels
