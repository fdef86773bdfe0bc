// SPDX-License-Identifier: Apache-2.0
#pragma once

// Two times 16 numbers are rounded to bf16 at once. For some 400 cycles after a tile instruction,
// whichever it is, a core has one multiplier for 512 bits instead of two: products, conversions,
// maxima and scaling take twice as long, sums, integers and selections as long as ever (measured on
// Granite Rapids). So lanes beside tiles go through it as rarely as they can.

#include "lanes/lanes.h"
#include "lanes/math_body.h"

namespace phalanx::kernels {
namespace {

// 32 numbers of bf16, and what they are as floats. A NaN is one of any payload.
struct RoundedPair {
  F16 low;
  F16 high;
#ifdef __AVX512BF16__
  __m512i words;
#endif
};
PHALANX_LANES RoundedPair rounded_pair(F16 low, F16 high) {
#ifdef __AVX512BF16__
  const auto words = __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(high.v, low.v));
  // Each word in the upper half of a lane.
  constexpr __mmask32 kUpper = 0xAAAAAAAA;
  const __m512i lanes = i_left<16>(i_iota()).v;
  const __m512i upper_lanes = _mm512_add_epi32(lanes, _mm512_set1_epi32(0x100000));
  return {f_bits({_mm512_maskz_permutexvar_epi16(kUpper, lanes, words)}),
          f_bits({_mm512_maskz_permutexvar_epi16(kUpper, upper_lanes, words)}),
          words};
#else
  return {f_round_to_bf16(low), f_round_to_bf16(high)};
#endif
}
PHALANX_LANES void store_pair(std::uint16_t* p, const RoundedPair& pair) {
#ifdef __AVX512BF16__
  _mm512_storeu_si512(p, pair.words);
#else
  i_store_low(p, i_right<16>(i_bits(pair.low)), 16);
  i_store_low(p + 16, i_right<16>(i_bits(pair.high)), 16);
#endif
}

}  // namespace
}  // namespace phalanx::kernels
