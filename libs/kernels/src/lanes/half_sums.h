// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sums of codes of activations, by instructions that every instruction set of the lanes has.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "lanes/lanes.h"

namespace phalanx::kernels {
namespace {

// The sums of the first 16 codes of four blocks.
PHALANX_LANES void sum_halves(const std::int8_t* blocks, std::int32_t* to) {
  // Unsigned, code + 128, 8 at a time in the low 32 bits of each half.
  const auto eights = [blocks](std::size_t block) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(blocks + block * 32));
    return _mm_sad_epu8(_mm_xor_si128(codes, _mm_set1_epi8(-128)), _mm_setzero_si128());
  };
  const auto pairs = [&eights](std::size_t block) {
    return _mm_castps_si128(
        _mm_shuffle_ps(_mm_castsi128_ps(eights(block)), _mm_castsi128_ps(eights(block + 1)), 0x88));
  };
  const __m128i biased = _mm_hadd_epi32(pairs(0), pairs(2));
  const __m128i sums = _mm_sub_epi32(biased, _mm_set1_epi32(16 * 128));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), sums);
}

}  // namespace
}  // namespace phalanx::kernels
