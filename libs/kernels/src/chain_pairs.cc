// SPDX-License-Identifier: Apache-2.0
#include "chain_pairs.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>

#include "phalanx/kernels/float_mode.h"

#include "scalar_math.h"

// Intrinsics are inlined only into functions that name their instruction set.
#define PHALANX_PAIRS [[gnu::target("avx512f,avx512bf16")]]

namespace phalanx::kernels {

namespace {

using Lanes = std::array<std::uint32_t, 16>;

// Numbers of all signs. Their products, from 2^-154 to 2^-75, cancel and round, and a quarter of
// them vanish: without larger ones beside them that can be seen.
Lanes some_pairs(std::uint32_t& state) {
  constexpr std::uint32_t kLeastExponent = 50;
  constexpr std::uint32_t kExponents = 40;
  Lanes pairs;
  for (std::uint32_t& pair : pairs) {
    pair = 0;
    for (int half = 0; half < 2; ++half) {
      state = state * 1664525 + 1013904223;
      const std::uint32_t exponent = kLeastExponent + (state >> 16) % kExponents;
      pair = pair << 16 | (state >> 8 & 0x807F) | exponent << 7;
    }
  }
  return pairs;
}

PHALANX_PAIRS void add_pairs(const Lanes& a, const Lanes& b, Lanes& sums) {
  const auto of_a = __builtin_bit_cast(__m512bh, _mm512_loadu_si512(a.data()));
  const auto of_b = __builtin_bit_cast(__m512bh, _mm512_loadu_si512(b.data()));
  _mm512_storeu_ps(sums.data(), _mm512_dpbf16_ps(_mm512_loadu_ps(sums.data()), of_a, of_b));
}

void add_products(const Lanes& a, const Lanes& b, Lanes& sums) {
  const auto upper = [](std::uint32_t pair) { return std::bit_cast<float>(pair & 0xFFFF0000); };
  const auto lower = [](std::uint32_t pair) { return std::bit_cast<float>(pair << 16); };
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const float first = scalar::fused(upper(a[i]), upper(b[i]), std::bit_cast<float>(sums[i]));
    sums[i] = std::bit_cast<std::uint32_t>(scalar::fused(lower(a[i]), lower(b[i]), first));
  }
}

bool are_chains() {
  constexpr int kTries = 64;
  constexpr int kLinks = 4;
  const FloatModeScope mode;
  std::uint32_t state = 1;
  for (int i = 0; i < kTries; ++i) {
    Lanes sums{};
    Lanes expected{};
    for (int link = 0; link < kLinks; ++link) {
      const Lanes a = some_pairs(state);
      const Lanes b = some_pairs(state);
      add_pairs(a, b, sums);
      add_products(a, b, expected);
      if (sums != expected) {
        return false;
      }
    }
  }
  return true;
}

// Independent sums, more than latency times throughput of either instruction. The empty asm hides
// them from the compiler, which would find them to be equal.
constexpr int kSums = 12;
constexpr int kLoops = 2000;  // so that it takes many times as long as to read a clock

PHALANX_PAIRS void pairs_loop() {
  __m512 sums[kSums] = {};
  const auto half = __builtin_bit_cast(__m512bh, _mm512_set1_ps(0.5F));
  for (int i = 0; i < kLoops; ++i) {
#pragma GCC unroll 12
    for (__m512& sum : sums) {
      sum = _mm512_dpbf16_ps(sum, half, half);
      asm volatile("" : "+v"(sum));
    }
  }
}

PHALANX_PAIRS void fma_loop() {
  __m512 sums[kSums] = {};
  const __m512 half = _mm512_set1_ps(0.5F);
  for (int i = 0; i < kLoops; ++i) {
#pragma GCC unroll 12
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(half, half, sum);
      asm volatile("" : "+v"(sum));
    }
  }
}

std::chrono::nanoseconds time_of(void (*loop)()) {
  const auto begun = std::chrono::steady_clock::now();
  loop();
  return std::chrono::steady_clock::now() - begun;
}

// By turns and at their fastest, so that what else the processor does does not count. One takes the
// time of one fma or of several; between one and two nothing has been seen.
bool are_fast() {
  constexpr int kTries = 8;
  auto pairs = std::chrono::nanoseconds::max();
  auto fmas = std::chrono::nanoseconds::max();
  for (int i = 0; i < kTries; ++i) {
    pairs = std::min(pairs, time_of(pairs_loop));
    fmas = std::min(fmas, time_of(fma_loop));
  }
  return 2 * pairs < 3 * fmas;
}

}  // namespace

bool pairs_are_chains() {
  static const bool kAreChains = are_chains();
  return kAreChains;
}

bool pairs_are_fast() {
  static const bool kAreFast = are_fast();
  return kAreFast;
}

}  // namespace phalanx::kernels
