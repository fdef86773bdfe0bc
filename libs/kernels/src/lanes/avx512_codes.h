// SPDX-License-Identifier: Apache-2.0
#pragma once

// Operations on integer codes over the lanes of avx512_lanes.h, with VNNI and without;
// avx2_codes.h has the same names.

#include "phalanx/kernels/weight.h"

#include "lanes/avx512_lanes.h"

namespace phalanx::kernels {
namespace {

// Four codes of a row.
using Word [[gnu::may_alias]] = std::uint32_t;

inline constexpr std::size_t kMaxIntRows = 8;  // × 2 strips: 16 sums
inline constexpr std::size_t kMaxIntStrips = 2;
inline constexpr std::size_t kIntRowsOfTwoStreams = 0;  // see kRowsOfTwoStreams
// Whether each format has the loops of its products to itself: 3 to 5 % faster with many rows, and
// a third more to compile.
#if defined(__AVX512VNNI__)
inline constexpr bool kInlinesProducts = true;
#else
inline constexpr bool kInlinesProducts = false;
#endif
// With so many groups of weights in a block: sums that go to memory twice for each of them cost
// more than weights that are read twice.
template <std::size_t kGroups>
inline constexpr std::size_t kMaxGroupRows = kGroups == 2 ? 4 : kMaxIntRows;

PHALANX_LANES F16 f_load_f16(const std::uint16_t* p) {  // exact, denormals too
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
// The codes of 16 columns as they are, of one K element and then of the next.
PHALANX_LANES F16 f_of_codes(const std::int8_t* p) {
  const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes))};
}
PHALANX_LANES F16 load_even(const std::int8_t* p) {
  return f_of_codes(p);
}
PHALANX_LANES F16 load_odd(const std::int8_t* p) {
  return f_of_codes(p + 16);
}
// The nearest f16, denormals too, infinity beyond. In every float mode that rounds to nearest.
PHALANX_LANES std::uint16_t to_f16(float x) {
  const __m256i halves = _mm512_cvtps_ph(_mm512_set1_ps(x), _MM_FROUND_TO_NEAREST_INT);
  return static_cast<std::uint16_t>(_mm_cvtsi128_si32(_mm256_castsi256_si128(halves)));
}
PHALANX_LANES float of_f16(std::uint16_t bits) {
  return _mm512_cvtss_f32(_mm512_cvtph_ps(_mm256_set1_epi16(static_cast<short>(bits))));
}
// Stores the low byte of each lane.
PHALANX_LANES void i_store_bytes(std::int8_t* p, I16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}
PHALANX_LANES I16 i_larger(I16 a, I16 b) {  // as unsigned numbers
  return {_mm512_max_epu32(a.v, b.v)};
}
PHALANX_LANES std::uint32_t i_largest(I16 a) {
  return _mm512_reduce_max_epu32(a.v);
}
PHALANX_LANES std::int32_t i_sum(I16 a) {
  return _mm512_reduce_add_epi32(a.v);
}
// The same of eight at once: lane i is that of a[i], for i < 8.
PHALANX_LANES I16 i_largest_of_eight(const I16 (&a)[8]) {
  const __m512i all[8] = {a[0].v, a[1].v, a[2].v, a[3].v, a[4].v, a[5].v, a[6].v, a[7].v};
  return {reduce_eight(all, [](__m512i b, __m512i c) { return _mm512_max_epu32(b, c); })};
}
PHALANX_LANES I16 i_sum_of_eight(const I16 (&a)[8]) {
  const __m512i all[8] = {a[0].v, a[1].v, a[2].v, a[3].v, a[4].v, a[5].v, a[6].v, a[7].v};
  return {reduce_eight(all, [](__m512i b, __m512i c) { return _mm512_add_epi32(b, c); })};
}

inline constexpr std::size_t kPlainWords = 8;  // of 32 codes of a row, as they are

// Four unsigned codes of 4 to 6 bits of each of 16 columns, as bytes.
struct CodeBytes {
  __m512i v;
};
PHALANX_LANES void c_store(std::uint8_t* p, CodeBytes quad) {
  _mm512_storeu_si512(p, quad.v);
}
// The low nibbles are one quad, the high ones the next.
PHALANX_LANES void n_load(const std::uint8_t* p, CodeBytes* low, CodeBytes* high) {
  const __m512i mask = _mm512_set1_epi8(15);
  const __m512i bytes = _mm512_loadu_si512(p);
  low->v = _mm512_and_si512(bytes, mask);
  high->v = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask);
}
// Half kHalf of a block of five bits: four lines of nibbles, and one of the fifth bits of all
// quads.
template <std::size_t kHalf>
PHALANX_LANES void v_load(const std::uint8_t* p, CodeBytes (&quads)[4]) {
  const __m512i first = _mm512_loadu_si512(p + kHalf * 128);
  const __m512i second = _mm512_loadu_si512(p + kHalf * 128 + 64);
  const __m512i fifth = _mm512_loadu_si512(p + 256);
  const __m512i low = _mm512_set1_epi8(0x0F);
  const __m512i high = _mm512_set1_epi8(0x10);
  const auto both = [&](__m512i nibbles, __m512i bits) {  // (bits & high) | (nibbles & low)
    return CodeBytes{_mm512_ternarylogic_epi32(_mm512_and_si512(bits, high), nibbles, low, 0xF8)};
  };
  if constexpr (kHalf == 0) {
    quads[0] = both(first, _mm512_slli_epi16(fifth, 4));
    quads[1] = both(_mm512_srli_epi16(first, 4), _mm512_slli_epi16(fifth, 3));
    quads[2] = both(second, _mm512_slli_epi16(fifth, 2));
    quads[3] = both(_mm512_srli_epi16(second, 4), _mm512_slli_epi16(fifth, 1));
  } else {
    quads[0] = both(first, fifth);
    quads[1] = both(_mm512_srli_epi16(first, 4), _mm512_srli_epi16(fifth, 1));
    quads[2] = both(second, _mm512_srli_epi16(fifth, 2));
    quads[3] = both(_mm512_srli_epi16(second, 4), _mm512_srli_epi16(fifth, 3));
  }
}
// Of six bits: two lines of nibbles, and one of the upper 2 bits of the four quads.
PHALANX_LANES void s_load(const std::uint8_t* p, CodeBytes (&quads)[4]) {
  const __m512i first = _mm512_loadu_si512(p);
  const __m512i second = _mm512_loadu_si512(p + 64);
  const __m512i upper = _mm512_loadu_si512(p + 128);
  const __m512i low = _mm512_set1_epi8(0x0F);
  const __m512i high = _mm512_set1_epi8(0x30);
  const auto both = [&](__m512i nibbles, __m512i bits) {  // (bits & high) | (nibbles & low)
    return CodeBytes{_mm512_ternarylogic_epi32(_mm512_and_si512(bits, high), nibbles, low, 0xF8)};
  };
  quads[0] = both(first, _mm512_slli_epi16(upper, 4));
  quads[1] = both(_mm512_srli_epi16(first, 4), _mm512_slli_epi16(upper, 2));
  quads[2] = both(second, upper);
  quads[3] = both(_mm512_srli_epi16(second, 4), _mm512_srli_epi16(upper, 2));
}
// A table with 128 added to each code, and what stands there for numbers below 16.
PHALANX_LANES CodeBytes c_table(const CodeTable& codes) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&codes));
  return {_mm512_xor_si512(_mm512_broadcast_i32x4(bytes), _mm512_set1_epi8(-128))};
}
PHALANX_LANES CodeBytes c_look_up(CodeBytes table, CodeBytes indices) {
  return {_mm512_shuffle_epi8(table.v, indices.v)};
}
PHALANX_LANES void n_spread(const std::int8_t* codes, std::uint32_t* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)));
}

#if defined(__AVX512VNNI__)

PHALANX_LANES CodeBytes c_load(const std::uint8_t* p) {
  return {_mm512_loadu_si512(p)};
}
// sum + four codes of each column times the four of a word.
PHALANX_LANES I16 c_dot(I16 sum, CodeBytes w, std::uint32_t word) {
  return {_mm512_dpbusd_epi32(sum.v, w.v, _mm512_set1_epi32(static_cast<int>(word)))};
}

}  // namespace
}  // namespace phalanx::kernels

#include "lanes/vnni_codes.h"

#else

inline constexpr std::size_t kQuadWords = 16;

// Bytes 0 and 2 of each column, and bytes 1 and 3, as pairs of int16.
struct Quads {
  __m512i even;
  __m512i odd;
};
PHALANX_LANES Quads q_split(__m512i bytes, __m512i mask) {
  return {_mm512_and_si512(bytes, mask), _mm512_and_si512(_mm512_srli_epi16(bytes, 8), mask)};
}
PHALANX_LANES Quads q_load(const std::uint8_t* p) {
  return q_split(_mm512_loadu_si512(p), _mm512_set1_epi16(255));
}
PHALANX_LANES Quads q_of(CodeBytes quad) {
  return q_split(quad.v, _mm512_set1_epi16(255));
}
PHALANX_LANES void q_spread(const std::int8_t* codes, std::uint32_t* to) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8), _mm256_srai_epi16(bytes, 8));
}
// Each sum is complete before the next: g++ would otherwise make the products of many quads first,
// and spill them.
PHALANX_LANES I16 q_dot(I16 sum, Quads w, const Word* block, std::size_t q) {
  const __m512i even = _mm512_set1_epi32(static_cast<int>(block[q]));
  const __m512i odd = _mm512_set1_epi32(static_cast<int>(block[q + 8]));
  const __m512i part = _mm512_add_epi32(sum.v, _mm512_madd_epi16(w.even, even));
  __m512i result = _mm512_add_epi32(part, _mm512_madd_epi16(w.odd, odd));
  asm("" : "+v"(result));
  return {result};
}

// As pairs of int16, which hold a whole block: 8 quads of 2 · 15 · 127.
struct NibbleSum {
  __m512i pairs;
};
PHALANX_LANES NibbleSum n_begin(std::int32_t /*start*/) {
  return {_mm512_setzero_si512()};
}
// As q_dot().
PHALANX_LANES NibbleSum n_dot(NibbleSum sum, CodeBytes w, const Word* block, std::size_t q) {
  const __m512i a = _mm512_set1_epi32(static_cast<int>(block[q]));
  NibbleSum result{_mm512_add_epi16(sum.pairs, _mm512_maddubs_epi16(w.v, a))};
  asm("" : "+v"(result.pairs));
  return result;
}
PHALANX_LANES I16 n_end(NibbleSum sum, std::int32_t start) {
  return {_mm512_add_epi32(_mm512_set1_epi32(start),
                           _mm512_madd_epi16(sum.pairs, _mm512_set1_epi16(1)))};
}
// As pairs of int16, which hold two quads of 2 · 63 · 127.
PHALANX_LANES I16 s_dot(I16 sum, CodeBytes a, CodeBytes b, const Word* block, std::size_t q) {
  return sum + n_end(n_dot(n_dot(n_begin(0), a, block, q), b, block, q + 1), 0);
}

}  // namespace
}  // namespace phalanx::kernels

#endif
