// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "lanes/data_path.h"

// The 16 virtual lanes of the arithmetic in one AVX-512 register. avx2_lanes.h has the same names
// over two AVX2 registers; the *_body.h files are written against these names and included by one
// translation unit per operation and instruction set. Everything has internal linkage: a function
// shared between two such units would be one symbol, compiled for whichever came first.

#define PHALANX_LANES [[gnu::always_inline]] inline

namespace phalanx::kernels {
namespace {

// 24 chains and two pairs of weights fill 28 of 32 registers; each activation that is loaded is
// used twice, so that loads do not limit.
inline constexpr std::size_t kMaxBlockRows = 6;
inline constexpr std::size_t kMaxBlockStrips = 2;
inline constexpr std::size_t kMaxChains = 24;
// No rows leave it to the processor to fetch weights.
inline constexpr std::size_t kRowsOfTwoStreams = 0;
// So few rows of bf16 and of bytes compute little enough between lines for a processor in halves to
// keep ahead by itself (Zen 4: one or two take up to a quarter less by FetchPages, three or four up
// to a half less by FetchLines).
inline constexpr std::size_t kMaxRowsByPages = 2;
// Where loads never limit, spreading an activation over a register takes time from the multipliers,
// and a product that spreads it as it loads it does not: more rows by one strip (98 % of the peak
// of Zen 4, else 84 %).
template <DataPath kPath>
inline constexpr std::size_t kRowsAtOnce = kPath == DataPath::kInHalves ? 8 : kMaxBlockRows;

struct F16 {
  __m512 v;
};
struct I16 {
  __m512i v;
};
struct M16 {
  __mmask16 v;
};

PHALANX_LANES F16 f_set(float x) {
  return {_mm512_set1_ps(x)};
}
PHALANX_LANES F16 f_load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
PHALANX_LANES __mmask16 first_lanes(std::size_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xFFFFU : (1U << count) - 1);
}
// The first `count` lanes; zeros beyond, which are not read.
PHALANX_LANES F16 f_load_first(const float* p, std::size_t count) {
  return {_mm512_maskz_loadu_ps(first_lanes(count), p)};
}
PHALANX_LANES void f_store(float* p, F16 a) {
  _mm512_storeu_ps(p, a.v);
}
PHALANX_LANES void f_store_first(float* p, F16 a, std::size_t count) {
  _mm512_mask_storeu_ps(p, first_lanes(count), a.v);
}
// a · 2^n, with one rounding. Requires integers from −126 to 128.
PHALANX_LANES F16 f_scaled(F16 a, F16 n) {
  return {_mm512_scalef_ps(a.v, n.v)};
}
// The same to 127. The low bits of `biased` are n + 127.
PHALANX_LANES F16 f_scaled_normal(F16 a, F16 n, I16 /*biased*/) {
  return f_scaled(a, n);
}
PHALANX_LANES F16 operator+(F16 a, F16 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
PHALANX_LANES F16 operator-(F16 a, F16 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
PHALANX_LANES F16 operator*(F16 a, F16 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
PHALANX_LANES F16 operator/(F16 a, F16 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
PHALANX_LANES F16 f_fused(F16 a, F16 b, F16 c) {  // a · b + c, rounded once
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
PHALANX_LANES F16 f_larger(F16 a, F16 b) {  // a > b ? a : b, so b when a is NaN
  return {_mm512_max_ps(a.v, b.v)};
}
PHALANX_LANES F16 f_smaller(F16 a, F16 b) {  // a < b ? a : b
  return {_mm512_min_ps(a.v, b.v)};
}
PHALANX_LANES float f_first(F16 a) {
  return _mm512_cvtss_f32(a.v);
}

PHALANX_LANES I16 i_set(std::uint32_t x) {
  return {_mm512_set1_epi32(static_cast<int>(x))};
}
PHALANX_LANES I16 i_iota() {
  return {_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)};
}
PHALANX_LANES void i_store(std::uint32_t* p, I16 a) {
  _mm512_storeu_si512(p, a.v);
}
PHALANX_LANES I16 i_bits(F16 a) {
  return {_mm512_castps_si512(a.v)};
}
PHALANX_LANES F16 f_bits(I16 a) {
  return {_mm512_castsi512_ps(a.v)};
}
PHALANX_LANES I16 operator+(I16 a, I16 b) {
  return {_mm512_add_epi32(a.v, b.v)};
}
PHALANX_LANES I16 operator-(I16 a, I16 b) {
  return {_mm512_sub_epi32(a.v, b.v)};
}
PHALANX_LANES I16 operator&(I16 a, I16 b) {
  return {_mm512_and_si512(a.v, b.v)};
}
PHALANX_LANES I16 operator|(I16 a, I16 b) {
  return {_mm512_or_si512(a.v, b.v)};
}
PHALANX_LANES I16 operator^(I16 a, I16 b) {
  return {_mm512_xor_si512(a.v, b.v)};
}
template <int kBits>
PHALANX_LANES I16 i_left(I16 a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
template <int kBits>
PHALANX_LANES I16 i_right(I16 a) {
  return {_mm512_srli_epi32(a.v, kBits)};
}
template <int kBits>
PHALANX_LANES I16 i_right_signed(I16 a) {
  return {_mm512_srai_epi32(a.v, kBits)};
}
PHALANX_LANES F16 f_of_signed(I16 a) {
  return {_mm512_cvtepi32_ps(a.v)};
}
PHALANX_LANES F16 f_of_unsigned(I16 a) {
  return {_mm512_cvtepu32_ps(a.v)};
}
PHALANX_LANES I16 i_nearest(F16 a) {
  return {_mm512_cvtps_epi32(a.v)};
}

PHALANX_LANES M16 is_greater(F16 a, F16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)};
}
PHALANX_LANES M16 is_less(F16 a, F16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)};
}
PHALANX_LANES M16 is_equal(F16 a, F16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)};
}
PHALANX_LANES M16 is_nan(F16 a) {
  return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)};
}
PHALANX_LANES M16 is_equal(I16 a, I16 b) {
  return {_mm512_cmpeq_epi32_mask(a.v, b.v)};
}
PHALANX_LANES M16 is_above(I16 a, I16 b) {  // as unsigned numbers
  return {_mm512_cmpgt_epu32_mask(a.v, b.v)};
}
PHALANX_LANES M16 m_first(std::size_t count) {
  return {first_lanes(count)};
}
PHALANX_LANES M16 m_range(std::size_t begin, std::size_t end) {  // lanes begin … end − 1
  return {static_cast<__mmask16>(first_lanes(end) & ~first_lanes(begin))};
}
PHALANX_LANES M16 operator&(M16 a, M16 b) {
  return {static_cast<__mmask16>(a.v & b.v)};
}
PHALANX_LANES M16 operator|(M16 a, M16 b) {
  return {static_cast<__mmask16>(a.v | b.v)};
}
PHALANX_LANES std::uint32_t m_bits(M16 a) {
  return a.v;
}
PHALANX_LANES F16 choose(M16 m, F16 yes, F16 no) {
  return {_mm512_mask_blend_ps(m.v, no.v, yes.v)};
}
PHALANX_LANES I16 choose(M16 m, I16 yes, I16 no) {
  return {_mm512_mask_blend_epi32(m.v, no.v, yes.v)};
}

// 16 bf16 numbers as floats; only the first `count` are read, the others are zeros.
PHALANX_LANES F16 f_load_bf16(const std::uint16_t* p, std::size_t count) {
  const __m256i bits = count >= 16 ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))
                                   : _mm256_maskz_loadu_epi16(first_lanes(count), p);
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}
// Stores the low half of each lane, the first `count` lanes.
PHALANX_LANES void i_store_low(std::uint16_t* p, I16 a, std::size_t count) {
  _mm256_mask_storeu_epi16(p, first_lanes(count), _mm512_cvtepi32_epi16(a.v));
}

// The even and the odd K elements of a row of a packed strip: 16 columns of both.
PHALANX_LANES F16 load_even(const std::uint16_t* p) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16))};
}
PHALANX_LANES F16 load_odd(const std::uint16_t* p) {
  const __m512i mask = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
  return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), mask))};
}

// Halves are added until one lane is left: lane i + lane i+8, then +4, +2, +1.
PHALANX_LANES float f_sum(F16 a) {
  const __m256 by8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
}
PHALANX_LANES float f_largest(F16 a) {  // requires no NaN
  return _mm512_reduce_max_ps(a.v);
}
// The first `count` lanes of eight rows become lines of eight numbers, so many numbers from one to
// the next.
PHALANX_LANES void i_store_columns(std::uint32_t* p,
                                   std::size_t stride,
                                   const I16 (&rows)[8],
                                   std::size_t count) {
  __m512i fours[2][4];  // [rows][lanes]: lanes l, l + 4, l + 8, l + 12 of four rows
#pragma GCC unroll 2
  for (std::size_t half = 0; half < 2; ++half) {
    const I16* of = rows + half * 4;
    const __m512i low01 = _mm512_unpacklo_epi32(of[0].v, of[1].v);
    const __m512i high01 = _mm512_unpackhi_epi32(of[0].v, of[1].v);
    const __m512i low23 = _mm512_unpacklo_epi32(of[2].v, of[3].v);
    const __m512i high23 = _mm512_unpackhi_epi32(of[2].v, of[3].v);
    fours[half][0] = _mm512_unpacklo_epi64(low01, low23);
    fours[half][1] = _mm512_unpackhi_epi64(low01, low23);
    fours[half][2] = _mm512_unpacklo_epi64(high01, high23);
    fours[half][3] = _mm512_unpackhi_epi64(high01, high23);
  }
  const __m512i lower = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
  const __m512i upper = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
#pragma GCC unroll 2
  for (std::size_t half = 0; half < 2; ++half) {
#pragma GCC unroll 4
    for (std::size_t lane = 0; lane < 4; ++lane) {
      const std::size_t column = half * 8 + lane;
      const __m512i both =
          _mm512_permutex2var_epi64(fours[0][lane], half == 0 ? lower : upper, fours[1][lane]);
      if (column < count) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + column * stride),
                            _mm512_castsi512_si256(both));
      }
      if (column + 4 < count) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + (column + 4) * stride),
                            _mm512_extracti64x4_epi64(both, 1));
      }
    }
  }
}
// Eight times 16 lanes become one number each: lane i is a[i], reduced, lane i + 8 the same.
template <typename Reduce>
PHALANX_LANES __m512i reduce_eight(const __m512i (&a)[8], const Reduce& reduce) {
  __m512i by_two[4];  // a[i], a[i + 4]: eight lanes each
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    by_two[i] = reduce(_mm512_shuffle_i32x4(a[i], a[i + 4], 0x44),
                       _mm512_shuffle_i32x4(a[i], a[i + 4], 0xEE));
  }
  __m512i by_four[2];  // of 0 4 2 6, of 1 5 3 7: four lanes each
#pragma GCC unroll 2
  for (std::size_t i = 0; i < 2; ++i) {
    by_four[i] = reduce(_mm512_shuffle_i32x4(by_two[i], by_two[i + 2], 0x88),
                        _mm512_shuffle_i32x4(by_two[i], by_two[i + 2], 0xDD));
  }
  const __m512i pairs = reduce(_mm512_unpacklo_epi32(by_four[0], by_four[1]),
                               _mm512_unpackhi_epi32(by_four[0], by_four[1]));
  // Lanes of 0 1 0 1, 4 5 4 5, 2 3 2 3, 6 7 6 7.
  const __m512i all = reduce(pairs, _mm512_shuffle_epi32(pairs, _MM_PERM_BADC));
  const __m512i place = _mm512_setr_epi32(0, 1, 8, 9, 4, 5, 12, 13, 0, 1, 8, 9, 4, 5, 12, 13);
  return _mm512_permutexvar_epi32(place, all);
}
// f_largest() of each of some numbers, all at once where they are eight.
template <std::size_t kCount>
PHALANX_LANES void f_largest_of(const F16 (&a)[kCount], float (&to)[kCount]) {
  if constexpr (kCount == 8) {
    __m512i bits[8];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i) {
      bits[i] = _mm512_castps_si512(a[i].v);
    }
    const __m512i largest = reduce_eight(bits, [](__m512i b, __m512i c) {
      return _mm512_castps_si512(_mm512_max_ps(_mm512_castsi512_ps(b), _mm512_castsi512_ps(c)));
    });
    _mm256_storeu_ps(to, _mm256_castsi256_ps(_mm512_castsi512_si256(largest)));
  } else {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kCount; ++i) {
      to[i] = f_largest(a[i]);
    }
  }
}

// A sum of many int32 in 64 bits.
struct WideSum {
  __m512i v;
};
PHALANX_LANES WideSum wide_zero() {
  return {_mm512_setzero_si512()};
}
PHALANX_LANES WideSum wide_add(WideSum sum, I16 a) {
  const __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(a.v));
  const __m512i high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(a.v, 1));
  return {_mm512_add_epi64(sum.v, _mm512_add_epi64(low, high))};
}
PHALANX_LANES std::int64_t wide_total(WideSum sum) {
  return _mm512_reduce_add_epi64(sum.v);
}

// Both halves of the 64-bit products of unsigned numbers.
struct Product {
  I16 high;
  I16 low;
};
PHALANX_LANES Product i_multiply(I16 a, std::uint32_t b) {
  const __m512i factor = _mm512_set1_epi64(b);
  const __m512i even = _mm512_mul_epu32(a.v, factor);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a.v, 32), factor);
  return {{_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd)},
          {_mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32))}};
}

// rows[j] lane 4k + i becomes rows[i] lane 4k + j: a transposition of each group of four lanes.
PHALANX_LANES void transpose_fours(I16 (&rows)[4]) {
  const __m512i t0 = _mm512_unpacklo_epi32(rows[0].v, rows[1].v);
  const __m512i t1 = _mm512_unpackhi_epi32(rows[0].v, rows[1].v);
  const __m512i t2 = _mm512_unpacklo_epi32(rows[2].v, rows[3].v);
  const __m512i t3 = _mm512_unpackhi_epi32(rows[2].v, rows[3].v);
  rows[0].v = _mm512_unpacklo_epi64(t0, t2);
  rows[1].v = _mm512_unpackhi_epi64(t0, t2);
  rows[2].v = _mm512_unpacklo_epi64(t1, t3);
  rows[3].v = _mm512_unpackhi_epi64(t1, t3);
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
