// SPDX-License-Identifier: Apache-2.0
#pragma once

// The elementary functions of docs/arithmetic.md over 16 lanes; the lines of scalar_math.cc. A
// lanes header comes first.

#include "lanes/lanes.h"

namespace phalanx::kernels {
namespace {

PHALANX_LANES F16 f_exp(F16 x) {
  const F16 shift = f_set(0x1.8p23F);
  const F16 shifted = f_fused(x, f_set(0x1.715476p+0F), shift);
  const F16 whole = shifted - shift;
  const F16 high = f_fused(whole, f_set(-0x1.63p-1F), x);
  const F16 r = f_fused(whole, f_set(0x1.bd0106p-13F), high);
  F16 p = f_set(0x1.6a25ccp-10F);
  p = f_fused(p, r, f_set(0x1.1239d4p-7F));
  p = f_fused(p, r, f_set(0x1.5558eep-5F));
  p = f_fused(p, r, f_set(0x1.555492p-3F));
  p = f_fused(p, r, f_set(0x1.fffffcp-2F));
  p = f_fused(p, r * r, r);
  p = p + f_set(1.0F);
  p = f_scaled(p, whole);
  p = choose(is_greater(x, f_set(0x1.62e42ep+6F)), f_bits(i_set(0x7F800000)), p);
  return choose(is_less(x, f_set(-0x1.5d589ep+6F)), f_set(0.0F), p);
}

// Requires x ≤ 0 or NaN.
PHALANX_LANES F16 f_exp2(F16 x) {
  const F16 shift = f_set(0x1.8p23F + 127.0F);
  const F16 shifted = x + shift;
  const F16 whole = shifted - shift;
  const F16 r = x - whole;
  F16 p = f_set(0x1.3a02ccp-7F);
  p = f_fused(p, r, f_set(0x1.c9fc46p-5F));
  p = f_fused(p, r, f_set(0x1.ec0378p-3F));
  p = f_fused(p, r, f_set(0x1.62e12cp-1F));
  p = f_fused(p, r, f_set(1.0F));
  p = f_scaled_normal(p, whole, i_bits(shifted));
  return choose(is_less(x, f_set(-126.0F)), f_set(0.0F), p);
}

PHALANX_LANES F16 f_log(F16 x) {
  const I16 bits = i_bits(x);
  const I16 exponent = i_right_signed<23>(bits - i_set(0x3F3504F3));
  const F16 m = f_bits(bits - i_left<23>(exponent));
  const F16 e = f_of_signed(exponent);
  const F16 f = m - f_set(1.0F);
  const F16 f2 = f * f;
  F16 q = f_set(-0x1.38bf3ep-4F);
  q = f_fused(q, f, f_set(0x1.05727cp-3F));
  q = f_fused(q, f, f_set(-0x1.0d8de8p-3F));
  q = f_fused(q, f, f_set(0x1.22d786p-3F));
  q = f_fused(q, f, f_set(-0x1.547134p-3F));
  q = f_fused(q, f, f_set(0x1.99a01cp-3F));
  q = f_fused(q, f, f_set(-0x1.00022ap-2F));
  q = f_fused(q, f, f_set(0x1.555554p-2F));
  F16 y = (q * f) * f2;
  y = f_fused(e, f_set(-0x1.bd0106p-13F), y);
  y = f_fused(f_set(-0.5F), f2, y);
  y = f + y;
  return f_fused(e, f_set(0x1.63p-1F), y);
}

// The bits of the bf16 nearest to each lane, in the low halves.
PHALANX_LANES I16 f_to_bf16(F16 x) {
  const I16 bits = i_bits(x);
  const I16 magnitude = bits & i_set(0x7FFFFFFF);
  const I16 odd = i_right<16>(bits) & i_set(1);
  const I16 rounded = i_right<16>(bits + i_set(0x7FFF) + odd);
  const I16 zero = i_right<16>(bits & i_set(0x80000000));
  const I16 result = choose(is_above(i_set(0x00800000), magnitude), zero, rounded);
  return choose(is_above(magnitude, i_set(0x7F800000)), i_set(0x7FC0), result);
}

PHALANX_LANES F16 f_of_bf16_bits(I16 bits) {
  return f_bits(i_left<16>(bits));
}

// 16 numbers of bf16.
struct B16 {
#ifdef __AVX512BF16__
  __m256i words;
#else
  I16 low_halves;
#endif
};
PHALANX_LANES B16 b_nearest(F16 x) {
#ifdef __AVX512BF16__
  // The instruction takes denormals for zeros as f_to_bf16() does, whatever the float mode is, but
  // keeps the payload of a NaN.
  const auto nearest = __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(x.v));
  return {_mm256_mask_blend_epi16(is_nan(x).v, nearest, _mm256_set1_epi16(0x7FC0))};
#else
  return {f_to_bf16(x)};
#endif
}
PHALANX_LANES void b_store(std::uint16_t* p, B16 x, std::size_t count) {  // the first `count` lanes
#ifdef __AVX512BF16__
  _mm256_mask_storeu_epi16(p, first_lanes(count), x.words);
#else
  i_store_low(p, x.low_halves, count);
#endif
}

// The bf16 nearest to each lane, as a float. Requires what arithmetic leaves: no denormals.
PHALANX_LANES F16 f_round_to_bf16(F16 x) {
  const I16 bits = i_bits(x);
  const I16 odd = i_right<16>(bits) & i_set(1);
  const I16 rounded = (bits + i_set(0x7FFF) + odd) & i_set(0xFFFF0000);
  return choose(is_nan(x), x, f_bits(rounded));
}

}  // namespace
}  // namespace phalanx::kernels
