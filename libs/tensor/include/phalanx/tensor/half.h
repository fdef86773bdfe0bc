// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace phalanx::tensor {

// A bfloat16 by its bits: the upper half of an fp32. A type of its own, so that no integer is taken
// for a number.
struct Bf16 {
  std::uint16_t bits = 0;
  friend bool operator==(const Bf16&, const Bf16&) = default;
};

// An IEEE binary16 by its bits; only checkpoints hold it.
struct F16 {
  std::uint16_t bits = 0;
  friend bool operator==(const F16&, const F16&) = default;
};

inline constexpr std::uint16_t kBf16Nan = 0x7FC0;  // the only NaN that a conversion to bf16 writes

// Integer operations only: the results do not depend on the float mode of the thread.
//
// to_bf16: round to nearest even; an fp32 denormal becomes a zero of its sign; every NaN becomes
// kBf16Nan; beyond the largest finite value becomes infinity.
[[nodiscard]] Bf16 to_bf16(float value);
[[nodiscard]] constexpr float to_float(Bf16 value) {  // exact; a bf16 denormal stays one
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
[[nodiscard]] F16 to_f16(float value);    // round to nearest even; denormals are kept
[[nodiscard]] float to_float(F16 value);  // exact; a NaN becomes the quiet NaN 0x7FC00000

// A bf16 as the arithmetic wants it: denormals become zeros of their sign, NaNs become kBf16Nan.
[[nodiscard]] Bf16 canonical(Bf16 value);

// Whether the value is neither infinite nor NaN.
[[nodiscard]] constexpr bool is_finite(Bf16 value) {
  return (value.bits & 0x7F80) != 0x7F80;
}

// Row conversions; `to` may not overlap `from`.
void to_bf16(const float* from, Bf16* to, std::size_t count);
void to_float(const Bf16* from, float* to, std::size_t count);

}  // namespace phalanx::tensor
