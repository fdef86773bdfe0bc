// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace phalanx::step {

// The numbers that a request may choose, each stated here and nowhere else: the API refuses by them
// what a client sends, a sender what it is about to send, and a decoder what came. Both ends of a
// range are allowed. They hold for the value that ranks compute with, see narrowed().
struct RealRule {
  std::string_view name;
  double low;
  double high;

  [[nodiscard]] constexpr bool allows(float value) const {  // false for NaN
    return value >= static_cast<float>(low) && value <= static_cast<float>(high);
  }
};

inline constexpr RealRule kTemperatureRule{"temperature", 0, 2};
// So small a share keeps one token; a smaller one cannot keep fewer.
inline constexpr RealRule kTopPRule{"top_p", 1e-10, 1};
inline constexpr RealRule kMinPRule{"min_p", 0, 1};
// Logits are divided and multiplied by it: only ones above 3e36 can overflow, which fails the row.
inline constexpr RealRule kRepetitionPenaltyRule{"repetition_penalty", 0.01, 100};
inline constexpr RealRule kPresencePenaltyRule{"presence_penalty", -2, 2};
inline constexpr RealRule kFrequencyPenaltyRule{"frequency_penalty", -2, 2};
inline constexpr RealRule kLogitBiasRule{"logit_bias", -100, 100};

// The value as ranks compute with it: the nearest float32, and zero where that is denormal, because
// kernels flush those. Infinite where a float32 cannot hold it.
[[nodiscard]] float narrowed(double value);

// "a number from 0 to 2"
[[nodiscard]] std::string range_of(const RealRule& rule);

}  // namespace phalanx::step
