// SPDX-License-Identifier: Apache-2.0
#pragma once

// Operations on integer codes over the lanes of avx2_lanes.h, with VNNI and without; see
// avx512_codes.h.

#include "phalanx/kernels/weight.h"

#include "lanes/avx2_lanes.h"

namespace phalanx::kernels {
namespace {

// Four codes of a row.
using Word [[gnu::may_alias]] = std::uint32_t;

inline constexpr std::size_t kMaxIntRows = 4;  // 8 registers of sums and 4 of weights
inline constexpr std::size_t kMaxIntStrips = 1;
inline constexpr std::size_t kIntRowsOfTwoStreams = 1;  // see kRowsOfTwoStreams
inline constexpr bool kInlinesProducts = false;  // no faster here, and a third more to compile
// With so many groups of weights in a block.
template <std::size_t kGroups>
inline constexpr std::size_t kMaxGroupRows = kMaxIntRows;

PHALANX_LANES F16 f_load_f16(const std::uint16_t* p) {  // exact, denormals too
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
// The codes of 16 columns as they are, of one K element and then of the next.
PHALANX_LANES F16 f_of_codes(const std::int8_t* p) {
  const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m128i last = _mm_unpackhi_epi64(codes, codes);
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(last))};
}
PHALANX_LANES F16 load_even(const std::int8_t* p) {
  return f_of_codes(p);
}
PHALANX_LANES F16 load_odd(const std::int8_t* p) {
  return f_of_codes(p + 16);
}
// The nearest f16, denormals too, infinity beyond. In every float mode that rounds to nearest.
PHALANX_LANES std::uint16_t to_f16(float x) {
  return static_cast<std::uint16_t>(
      _mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT), 0));
}
PHALANX_LANES float of_f16(std::uint16_t bits) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}
// Stores the low byte of each lane. Requires −128 … 127.
PHALANX_LANES void i_store_bytes(std::int8_t* p, I16 x) {
  // The packs work within 128 bits: quarters come out as 0, 2, 1, 3.
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xD8);
  const __m128i low = _mm256_castsi256_si128(words);
  const __m128i high = _mm256_extracti128_si256(words, 1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(low, high));
}
PHALANX_LANES I16 i_larger(I16 x, I16 y) {  // as unsigned numbers
  return {_mm256_max_epu32(x.a, y.a), _mm256_max_epu32(x.b, y.b)};
}
PHALANX_LANES std::uint32_t i_largest(I16 x) {
  const __m256i by8 = _mm256_max_epu32(x.a, x.b);
  const __m128i by4 = _mm_max_epu32(_mm256_castsi256_si128(by8), _mm256_extracti128_si256(by8, 1));
  const __m128i by2 = _mm_max_epu32(by4, _mm_shuffle_epi32(by4, 0x4E));
  const __m128i by1 = _mm_max_epu32(by2, _mm_shuffle_epi32(by2, 0xB1));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(by1));
}
PHALANX_LANES std::int32_t i_sum(I16 x) {
  const __m256i by8 = _mm256_add_epi32(x.a, x.b);
  const __m128i by4 = _mm_add_epi32(_mm256_castsi256_si128(by8), _mm256_extracti128_si256(by8, 1));
  const __m128i by2 = _mm_add_epi32(by4, _mm_shuffle_epi32(by4, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(by2, _mm_shuffle_epi32(by2, 0xB1)));
}

// The same of eight at once: lane i is that of x[i], for i < 8.
PHALANX_LANES I16 i_largest_of_eight(const I16 (&x)[8]) {
  alignas(32) std::uint32_t all[16] = {};
  for (std::size_t i = 0; i < 8; ++i) {
    all[i] = i_largest(x[i]);
  }
  return i_bits(f_load(reinterpret_cast<const float*>(all)));
}
PHALANX_LANES I16 i_sum_of_eight(const I16 (&x)[8]) {
  alignas(32) std::int32_t all[16] = {};
  for (std::size_t i = 0; i < 8; ++i) {
    all[i] = i_sum(x[i]);
  }
  return i_bits(f_load(reinterpret_cast<const float*>(all)));
}

PHALANX_LANES I16 q_bytes(const std::uint8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
inline constexpr std::size_t kPlainWords = 8;  // of 32 codes of a row, as they are

// Four unsigned codes of 4 to 6 bits of each of 16 columns, as bytes.
struct CodeBytes {
  I16 bytes;
};
PHALANX_LANES void c_store(std::uint8_t* p, CodeBytes quad) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), quad.bytes.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), quad.bytes.b);
}
// The low nibbles are one quad, the high ones the next.
PHALANX_LANES void n_load(const std::uint8_t* p, CodeBytes* low, CodeBytes* high) {
  const I16 mask = i_set(0x0F0F0F0F);
  const I16 bytes = q_bytes(p);
  low->bytes = bytes & mask;
  high->bytes = i_right<4>(bytes) & mask;
}
// Half kHalf of a block of five bits: four lines of nibbles, and one of the fifth bits of all
// quads.
template <std::size_t kHalf>
PHALANX_LANES void v_load(const std::uint8_t* p, CodeBytes (&quads)[4]) {
  n_load(p + kHalf * 128, &quads[0], &quads[1]);
  n_load(p + kHalf * 128 + 64, &quads[2], &quads[3]);
  const I16 fifth = q_bytes(p + 256);
  const I16 mask = i_set(0x10101010);
  if constexpr (kHalf == 0) {
    quads[0].bytes = quads[0].bytes | (i_left<4>(fifth) & mask);
    quads[1].bytes = quads[1].bytes | (i_left<3>(fifth) & mask);
    quads[2].bytes = quads[2].bytes | (i_left<2>(fifth) & mask);
    quads[3].bytes = quads[3].bytes | (i_left<1>(fifth) & mask);
  } else {
    quads[0].bytes = quads[0].bytes | (fifth & mask);
    quads[1].bytes = quads[1].bytes | (i_right<1>(fifth) & mask);
    quads[2].bytes = quads[2].bytes | (i_right<2>(fifth) & mask);
    quads[3].bytes = quads[3].bytes | (i_right<3>(fifth) & mask);
  }
}
// Of six bits: two lines of nibbles, and one of the upper 2 bits of the four quads.
PHALANX_LANES void s_load(const std::uint8_t* p, CodeBytes (&quads)[4]) {
  n_load(p, &quads[0], &quads[1]);
  n_load(p + 64, &quads[2], &quads[3]);
  const I16 upper = q_bytes(p + 128);
  const I16 mask = i_set(0x30303030);
  quads[0].bytes = quads[0].bytes | (i_left<4>(upper) & mask);
  quads[1].bytes = quads[1].bytes | (i_left<2>(upper) & mask);
  quads[2].bytes = quads[2].bytes | (upper & mask);
  quads[3].bytes = quads[3].bytes | (i_right<2>(upper) & mask);
}
// A table with 128 added to each code, and what stands there for numbers below 16.
PHALANX_LANES CodeBytes c_table(const CodeTable& codes) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&codes));
  const __m256i biased =
      _mm256_xor_si256(_mm256_broadcastsi128_si256(bytes), _mm256_set1_epi8(-128));
  return {{biased, biased}};
}
PHALANX_LANES CodeBytes c_look_up(CodeBytes table, CodeBytes indices) {
  return {{_mm256_shuffle_epi8(table.bytes.a, indices.bytes.a),
           _mm256_shuffle_epi8(table.bytes.b, indices.bytes.b)}};
}
PHALANX_LANES void n_spread(const std::int8_t* codes, std::uint32_t* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)));
}

#if defined(__AVXVNNI__)

PHALANX_LANES CodeBytes c_load(const std::uint8_t* p) {
  return {q_bytes(p)};
}
// sum + four codes of each column times the four of a word.
PHALANX_LANES I16 c_dot(I16 sum, CodeBytes w, std::uint32_t word) {
  const __m256i a = _mm256_set1_epi32(static_cast<int>(word));
  return {_mm256_dpbusd_avx_epi32(sum.a, w.bytes.a, a),
          _mm256_dpbusd_avx_epi32(sum.b, w.bytes.b, a)};
}

}  // namespace
}  // namespace phalanx::kernels

#include "lanes/vnni_codes.h"

#else

inline constexpr std::size_t kQuadWords = 16;  // of 32 spread codes

// Four unsigned codes of each of 16 columns: bytes 0 and 2, and bytes 1 and 3, as pairs of int16.
struct Quads {
  I16 even;
  I16 odd;
};
PHALANX_LANES Quads q_split(I16 bytes) {
  const I16 mask = i_set(0x00FF00FF);
  return {bytes & mask, i_right<8>(bytes) & mask};
}
PHALANX_LANES Quads q_load(const std::uint8_t* p) {
  return q_split(q_bytes(p));
}
// 32 codes of a row as q_dot() takes them.
PHALANX_LANES void q_spread(const std::int8_t* codes, std::uint32_t* to) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8), _mm256_srai_epi16(bytes, 8));
}
// sum + the products of quad q of a block with the columns. Each sum is complete before the next:
// g++ would otherwise make the products of many quads first, and spill them.
PHALANX_LANES I16 q_dot(I16 sum, Quads w, const Word* block, std::size_t q) {
  const __m256i even = _mm256_set1_epi32(static_cast<int>(block[q]));
  const __m256i odd = _mm256_set1_epi32(static_cast<int>(block[q + 8]));
  const I16 part = sum + I16{_mm256_madd_epi16(w.even.a, even), _mm256_madd_epi16(w.even.b, even)};
  I16 result = part + I16{_mm256_madd_epi16(w.odd.a, odd), _mm256_madd_epi16(w.odd.b, odd)};
  asm("" : "+x"(result.a), "+x"(result.b));
  return result;
}
PHALANX_LANES Quads q_of(CodeBytes quad) {
  return q_split(quad.bytes);
}

// A sum of one block over nibbles, from `start`, as pairs of int16, which hold a whole block: 8
// quads of 2 · 15 · 127.
struct NibbleSum {
  I16 pairs;
};
PHALANX_LANES NibbleSum n_begin(std::int32_t /*start*/) {
  return {i_set(0)};
}
// As q_dot().
PHALANX_LANES NibbleSum n_dot(NibbleSum sum, CodeBytes w, const Word* block, std::size_t q) {
  const __m256i a = _mm256_set1_epi32(static_cast<int>(block[q]));
  NibbleSum result{{_mm256_add_epi16(sum.pairs.a, _mm256_maddubs_epi16(w.bytes.a, a)),
                    _mm256_add_epi16(sum.pairs.b, _mm256_maddubs_epi16(w.bytes.b, a))}};
  asm("" : "+x"(result.pairs.a), "+x"(result.pairs.b));
  return result;
}
PHALANX_LANES I16 n_end(NibbleSum sum, std::int32_t start) {
  const __m256i ones = _mm256_set1_epi16(1);
  return i_set(static_cast<std::uint32_t>(start)) +
         I16{_mm256_madd_epi16(sum.pairs.a, ones), _mm256_madd_epi16(sum.pairs.b, ones)};
}
// sum + the products of quads q and q + 1 of a block with columns of up to 6 bits, as pairs of
// int16, which hold two quads of 2 · 63 · 127.
PHALANX_LANES I16 s_dot(I16 sum, CodeBytes a, CodeBytes b, const Word* block, std::size_t q) {
  return sum + n_end(n_dot(n_dot(n_begin(0), a, block, q), b, block, q + 1), 0);
}

}  // namespace
}  // namespace phalanx::kernels

#endif
