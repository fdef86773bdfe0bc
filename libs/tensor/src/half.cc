// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tensor/half.h"

#include <bit>

namespace phalanx::tensor {

namespace {

constexpr std::uint32_t kSign = 0x80000000;
constexpr std::uint32_t kF32Infinity = 0x7F800000;
constexpr std::uint32_t kF32Nan = 0x7FC00000;
constexpr std::uint32_t kF32SmallestNormal = 0x00800000;

}  // namespace

Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & ~kSign;
  if (magnitude > kF32Infinity) {
    return {kBf16Nan};
  }
  if (magnitude < kF32SmallestNormal) {
    return {static_cast<std::uint16_t>((bits & kSign) >> 16)};
  }
  // Half of the last kept bit, less one when that bit is even: ties go to even, and a carry out of
  // the mantissa is the next exponent, up to infinity.
  const std::uint32_t half = 0x7FFF + ((bits >> 16) & 1);
  return {static_cast<std::uint16_t>((bits + half) >> 16)};
}

F16 to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits & kSign) >> 16);
  const std::uint32_t magnitude = bits & ~kSign;
  if (magnitude > kF32Infinity) {
    return {0x7E00};
  }
  constexpr std::uint32_t kF16Overflow = 0x477FF000;  // 65520: halfway beyond the largest finite
  if (magnitude >= kF16Overflow) {
    return {static_cast<std::uint16_t>(sign | 0x7C00)};
  }
  const std::uint32_t exponent = magnitude >> 23;
  constexpr std::uint32_t kF16SmallestNormalExponent = 113;  // 2^-14
  std::uint32_t mantissa = magnitude & 0x007FFFFF;
  std::uint32_t shift = 13;
  std::uint32_t base = 0;
  if (exponent >= kF16SmallestNormalExponent) {
    base = (exponent - kF16SmallestNormalExponent + 1) << 10;
  } else {
    if (exponent < kF16SmallestNormalExponent - 11) {
      return {sign};  // below half of the smallest denormal
    }
    mantissa |= kF32SmallestNormal;
    shift += kF16SmallestNormalExponent - exponent;
  }
  const std::uint32_t kept = mantissa >> shift;
  const std::uint32_t rest = mantissa & ((1U << shift) - 1);
  const std::uint32_t tie = 1U << (shift - 1);
  const std::uint32_t up = (rest > tie || (rest == tie && (kept & 1) != 0)) ? 1 : 0;
  return {static_cast<std::uint16_t>(sign | (base + kept + up))};
}

float to_float(F16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1F;
  std::uint32_t mantissa = value.bits & 0x3FF;
  if (exponent == 0x1F) {
    return std::bit_cast<float>(mantissa != 0 ? kF32Nan : (sign | kF32Infinity));
  }
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  }
  if (mantissa == 0) {
    return std::bit_cast<float>(sign);
  }
  std::uint32_t f32_exponent = 113;
  while ((mantissa & 0x400) == 0) {
    mantissa <<= 1;
    --f32_exponent;
  }
  return std::bit_cast<float>(sign | (f32_exponent << 23) | ((mantissa & 0x3FF) << 13));
}

Bf16 canonical(Bf16 value) {
  return to_bf16(to_float(value));
}

void to_bf16(const float* from, Bf16* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = to_bf16(from[i]);
  }
}

void to_float(const Bf16* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = to_float(from[i]);
  }
}

}  // namespace phalanx::tensor
