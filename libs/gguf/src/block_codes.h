// SPDX-License-Identifier: Apache-2.0
// One block of a GGUF type as codes: what the decoders of all types are made of.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "phalanx/gguf/tensor_type.h"

#include "numbers.h"

namespace phalanx::gguf {

inline constexpr std::size_t kSmall = 32;  // elements of a block of the older types
inline constexpr std::size_t kHalfBytes = 2;
inline constexpr std::size_t kLargestBlock = 256;
inline constexpr std::size_t kRuns = 8;  // of 32 elements in a block of 256

[[nodiscard]] inline std::uint32_t u8(const std::byte* from, std::size_t index) {
  return std::to_integer<std::uint32_t>(from[index]);
}

[[nodiscard]] inline float as_float(std::uint32_t integer) {
  return static_cast<float>(static_cast<std::int32_t>(integer));
}

// Exact; a NaN becomes a quiet NaN of its sign. Integer operations only, so that a thread that
// flushes denormals reads the same.
[[nodiscard]] inline float half_of(std::uint32_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  std::uint32_t exponent = (bits >> 10) & 0x1FU;
  std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0x1F) {
    return std::bit_cast<float>(sign | (mantissa != 0 ? 0x7FC00000U : 0x7F800000U));
  }
  if (exponent == 0 && mantissa == 0) {
    return std::bit_cast<float>(sign);
  }
  if (exponent == 0) {
    // Denormal: shift the leading one to the place that a normal number has it in.
    const auto shift = static_cast<std::uint32_t>(std::countl_zero(mantissa)) - 21U;
    mantissa = (mantissa << shift) & 0x3FFU;
    exponent = 1U - shift;  // may wrap; the bias below brings it back
  }
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (mantissa << 13));
}

[[nodiscard]] inline float half_at(const std::byte* from) {
  return half_of(load<std::uint16_t>(from));
}

// A block as codes: element i is codes[i] · (scales[i / 16] · superscale) −
// minima[i / 16] · superminimum. Types of two levels have steps as scales and minima.
struct BlockCodes {
  std::array<std::int8_t, kLargestBlock> codes;
  std::array<float, kLargestBlock / kCodeGroup> scales;
  std::array<float, kLargestBlock / kCodeGroup> minima;
  float superscale = 1.0F;
  float superminimum = 1.0F;

  void set(std::size_t element, std::uint32_t code) {
    codes[element] = static_cast<std::int8_t>(static_cast<std::int32_t>(code));
  }
  // Of the whole block, which has no minima.
  void set_all(float scale) {
    scales.fill(scale);
    minima.fill(0.0F);
  }
  // Of elements [32 · run, 32 · run + 32).
  void set_run(std::size_t run, float scale, float minimum) {
    scales[2 * run] = scales[2 * run + 1] = scale;
    minima[2 * run] = minima[2 * run + 1] = minimum;
  }
};

// 2-bit q[256] less `bias`.
inline void two_bits(const std::byte* q, std::uint32_t bias, BlockCodes& out) {
  for (std::size_t run = 0; run < kRuns; ++run) {
    for (std::size_t j = 0; j < 32; ++j) {
      out.set(32 * run + j, ((u8(q, run / 4 * 32 + j) >> (run % 4 * 2)) & 3U) - bias);
    }
  }
}

using CodeFunction = void (*)(const std::byte* block, BlockCodes& out);

// In grid_codes.cc, table_codes.cc and ternary_codes.cc; those of the other types are in decode.cc.
void codes_iq1_s(const std::byte* block, BlockCodes& out);
void codes_iq1_m(const std::byte* block, BlockCodes& out);
void codes_iq2_xxs(const std::byte* block, BlockCodes& out);
void codes_iq2_xs(const std::byte* block, BlockCodes& out);
void codes_iq2_s(const std::byte* block, BlockCodes& out);
void codes_iq3_xxs(const std::byte* block, BlockCodes& out);
void codes_iq3_s(const std::byte* block, BlockCodes& out);
void codes_iq4_nl(const std::byte* block, BlockCodes& out);
void codes_iq4_xs(const std::byte* block, BlockCodes& out);
void codes_mxfp4(const std::byte* block, BlockCodes& out);
void codes_nvfp4(const std::byte* block, BlockCodes& out);
void codes_tq1_0(const std::byte* block, BlockCodes& out);
void codes_tq2_0(const std::byte* block, BlockCodes& out);
void codes_q1_0(const std::byte* block, BlockCodes& out);
void codes_q2_0(const std::byte* block, BlockCodes& out);

// The numbers themselves: those that codes cannot give as well.
void values_mxfp4(const std::byte* block, float* out);

}  // namespace phalanx::gguf
