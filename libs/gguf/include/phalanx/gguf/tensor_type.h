// SPDX-License-Identifier: Apache-2.0
// How GGUF files store numbers: plain, or in blocks of consecutive elements that share scales.
//
// Notation: d, m, dmin are binary16 and are converted to fp32 exactly; q is an unsigned integer of
// the stated width; all arithmetic is fp32, rounded to nearest even. Every product below is exact
// in fp32 (11-bit significand × at most 13 bits of integers), so each value is rounded at most
// once, in its final addition or subtraction, and does not depend on fused multiply-add.
//
//   type  elements bytes  layout, in order                             value of element i
//   F32     1        4    fp32                                         x
//   F16     1        2    binary16                                     x
//   BF16    1        2    upper half of an fp32                        x
//   Q8_0    32      34    d, int8 q[32]                                d·q[i]
//   Q4_0    32      18    d, 4-bit q[32]                               d·(q[i] − 8)
//   Q4_1    32      20    d, m, 4-bit q[32]                            d·q[i] + m
//   Q5_0    32      22    d, high bits (32), 4-bit q[32]               d·(q[i] − 16)
//   Q5_1    32      24    d, m, high bits (32), 4-bit q[32]            d·q[i] + m
//   Q2_K    256     84    8-bit c[16], 2-bit q[256], d, dmin           (d·s)·q[i] − dmin·n
//   Q3_K    256    110    high bits (256), low bits [64], scales[12],  (d·(s − 32))·(q[i] − 4)
//                         d
//   Q4_K    256    144    d, dmin, scales[12], 4-bit q[256]            (d·s)·q[i] − dmin·n
//   Q5_K    256    176    d, dmin, scales[12], high bits (256), q[256] (d·s)·q[i] − dmin·n
//   Q6_K    256    210    low bits [128], high bits [64], int8 s[16],  (d·s)·(q[i] − 32)
//                         d
//   IQ1_S   256     50    d, low bytes [32], 16-bit w[8]               (d·(2s + 1)/8)·(8·p[i] ± 1)
//   IQ1_M   256     56    low bytes [32], 4-bit [32], 16-bit w[4]      (d·(2s + 1)/8)·(8·p[i] ± 1)
//   IQ2_XXS 256     66    d, 8 of (low bytes [4], 32-bit w)            ±(d·(2s + 1)/8)·p[i]
//   IQ2_XS  256     74    d, 16-bit w[32], 4-bit s[16]                 ±(d·(2s + 1)/8)·p[i]
//   IQ2_S   256     82    d, low bytes [32], signs [32], tops [8],     ±(d·(2s + 1)/8)·p[i]
//                         4-bit s[16]
//   IQ3_XXS 256     98    d, low bytes [64], 32-bit w[8]               ±(d·(2s + 1)/4)·p[i]
//   IQ3_S   256     110   d, low bytes [64], tops [8], signs [32],     ±(d·(2s + 1))·p[i]
//                         4-bit s[8]
//   IQ4_NL  32      18    d, 4-bit q[32]                               d·t(q[i])
//   IQ4_XS  256    136    d, top bits (16), 4-bit s[8], 4-bit q[256]   (d·(s − 32))·t(q[i])
//   TQ1_0   256     54    digits [48], digits [4], d                   d·(q[i] − 1)
//   TQ2_0   256     66    2-bit q[256], d                              d·(q[i] − 1)
//   MXFP4   32      17    8-bit e, 4-bit q[32]                         2^(e − 128)·u(q[i])
//   NVFP4   64      36    8-bit e[4], 4-bit q[64]                      (v(e)/2)·u(q[i])
//   Q1_0    128     18    d, 1-bit q[128]                              d·(2·q[i] − 1)
//   Q2_0    64      18    d, 2-bit q[64]                               d·(q[i] − 1)
//
// t: −127, −104, −83, −65, −49, −35, −22, −10, 1, 13, 25, 38, 53, 69, 89, 113
// u: 0, 1, 2, 3, 4, 6, 8, 12, 0, −1, −2, −3, −4, −6, −8, −12
// v: e·2^(−9) below 8, (8 + e % 8)·2^(e / 8 − 10) from there on (OCP 8-bit numbers, E4M3, unsigned)
// e = 255 of MXFP4 makes NaNs, as the Microscaling specification (OCP MX 1.0) says; llama.cpp goes
// on to 2^127. From e = 253 on the largest elements are infinite, and below 2 the smallest are
// denormals. e ≥ 127 of NVFP4 makes NaNs too: 127 is that of E4M3, and beyond is no number of 7
// bits; llama.cpp reads 0 in 127 and 128 and leaves the eighth bit out of the others.
//
// Places inside a block:
// - 4-bit q[32]: the low nibble of byte j is element j, the high one element j + 16; high bit of
//   element i is bit i of the little-endian word.
// - Q4_K and Q5_K: nibbles in four groups of 32 bytes; in group g the low nibble of byte j is
//   element 64g + j, the high one 64g + 32 + j. Q5_K takes the high bit of element 64g + 32h + j
//   from bit 2g + h of high-bit byte j. s and n are 6-bit numbers per run r = i / 32 of the twelve
//   bytes c: r < 4: s = c[r] & 63, n = c[r+4] & 63; r ≥ 4: s = c[r+4] & 15 | (c[r−4] >> 6) << 4,
//   n = c[r+4] >> 4 | (c[r] >> 6) << 4.
// - 2-bit q[256]: two halves of 128 elements with 32 bytes each; in a half, element 32a + j
//   (a = 0…3) is at bits 2a of byte j.
// - Q2_K: s is the low nibble and n the high one of c[i / 16].
// - Q3_K: two halves of 128 elements with 32 low bytes each; in half h, element 32a + j (a = 0…3)
//   has its low two bits in byte j at bits 2a, and its high bit at bit 4h + a of high-bit byte j.
//   s is a 6-bit number per run r = i / 16 of the twelve bytes c: its low four bits are nibble r / 8
//   of c[r % 8], its high two those of c[8 + r % 4] at bits 2(r / 4).
// - Q6_K: two halves of 128 elements with 64 low and 32 high bytes each; in a half, element
//   32a + j (a = 0…3) has its low four bits in byte 32(a & 1) + j, nibble a / 2, and its high two
//   in byte j at bits 2a; s belongs to the run of 16 elements.
// - IQ1, IQ2, IQ3: p are coordinates of the points of the type's grid (src/code_grids.h; IQ1_M has
//   that of IQ1_S). A point is an octet o = i / 8 of elements, of IQ3 four elements f = i / 4; n is its
//   place in the grid, and low bytes are those of n. Run r = i / 32 has the octets k = o % 4. Signs:
//   bit j makes element 8o + j negative; where seven are told, the eighth makes their number even.
//   4-bit s[m]: the low nibble of byte j is number 2j, the high one 2j + 1, for runs of 256 / m.
//   IQ1_S: of w[r], three bits at 3k are the high ones of n, three at 12 are s, bit 15 says −.
//   IQ1_M: of nibble o, the low ones first, three bits are the high ones of n, bit 3 says −; s is
//     three bits for each run of 16, four in a word at 0, 3, 6 and 9; bits 12 … 15 of the words are d,
//     its low bits first.
//   IQ2_XXS, IQ3_XXS: of w of run r, seven bits at 7k are the signs, four at 28 are s.
//   IQ2_XS: of w[o], the low nine bits are n, the others the signs.
//   IQ2_S: two bits at 2k of tops byte r are the high ones of n.
//   IQ3_S: bit f % 8 of tops byte r is the high one of n.
// - IQ4_XS: runs r of 32 elements with 16 bytes of q each, as 4-bit q[32] above. s is a 6-bit
//   number per run: its low four bits are nibble r % 2 of byte r / 2, its high two those of the
//   little-endian word of top bits at bit 2r.
// - NVFP4: e and 8 bytes of q for each group g of 16 elements: the low nibble of byte j is element
//   16g + j, the high one 16g + 8 + j.
// - TQ1_0: a byte is a fraction of 256, and its digits to the base of 3 are q: digit n (the first
//   after the point is 0) is the integer part of 3 · (byte · 3^n mod 256) / 256. Element 32n + j is
//   digit n of byte j for the first 32 bytes, element 160 + 16n + j that of byte 32 + j for the next
//   16, both with five digits, and element 240 + 4n + j that of byte j of the last four, with four.
// - Q1_0 and Q2_0: element i is at bit i % 8 of byte i / 8, or at bits 2(i % 4) of byte i / 4.
//
// Source: the block structures of ggml (MIT), as found in files written by llama.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "phalanx/base/result.h"

namespace phalanx::gguf {

// Numbered as in the file. Values that this enumeration does not name are valid too as long as
// find_type() knows them: types that can be measured and named, but not decoded.
enum class TensorType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
  kQ1_0 = 41,
  kQ2_0 = 42,
};

struct TypeTraits {
  TensorType type = TensorType::kF32;
  std::string_view name;             // "Q4_K"
  std::uint32_t block_elements = 1;  // a row is a multiple of it
  std::uint32_t block_bytes = 4;
  bool decodable = false;
};

// nullptr for a number that no type has.
[[nodiscard]] const TypeTraits* find_type(std::uint32_t number);

// The traits of a type that find_type() knows.
[[nodiscard]] const TypeTraits& traits_of(TensorType type);

// "F32, F16, …": the types that decode() takes, for messages.
[[nodiscard]] std::string decodable_types();

// Converts whole blocks to fp32: out.size() is a multiple of the type's block_elements, and
// blocks.size() the bytes of exactly that many elements; `blocks` need not be aligned. Infinities
// and NaNs in the scales propagate as the formula says; a NaN's payload is unspecified. Independent
// of the thread's rounding of denormals.
//
// Requires: traits_of(type).decodable, and the sizes as said (a defect of the caller otherwise).
// Threads:  any.
// Allocates: nothing.
void decode(TensorType type, std::span<const std::byte> blocks, std::span<float> out);

inline constexpr std::size_t kCodeGroup = 16;   // elements that share a scale and a minimum
inline constexpr std::size_t kSuperblock = 64;  // elements that share a superscale

// Element i is codes[i] · scales[i / 16] − minima[i / 16]: the formulas above, with 0 where a type
// adds or takes away nothing, and −m where it adds m.
//
// With superscales, scales and minima are the integers s and n of Q2_K to Q6_K, and superscales and
// superminima the d and dmin that those of elements i / 64 are multiplied by.
struct CodeSpans {
  std::span<std::int8_t> codes;
  std::span<float> scales;
  std::span<float> minima;
  std::span<float> superscales = {};  // empty: none
  std::span<float> superminima = {};  // as superscales
};

// As decode(), without the last two operations. Every scale and minimum is exact, but two of MXFP4
// that kernels could not compute with. One that would be a denormal (e < 2), which is zero for
// them, is 0 in a block of zeros, and NaN, which no format takes, in any other. One that makes a
// number of its block infinite (e > 252) is NaN.
//
// Requires: a type of blocks: not F32, F16 or BF16; out.codes.size() elements in whole blocks, a
//           scale and a minimum for 16 of them; superscales and superminima for 64, of Q2_K to
//           Q6_K only, or neither.
void decode_codes(TensorType type, std::span<const std::byte> blocks, const CodeSpans& out);

}  // namespace phalanx::gguf
