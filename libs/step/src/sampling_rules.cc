// SPDX-License-Identifier: Apache-2.0
#include "phalanx/step/sampling_rules.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace phalanx::step {
namespace {

std::string text_of(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

}  // namespace

float narrowed(double value) {
  // A conversion beyond the range of float has no defined result.
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (std::abs(value) > kLargest) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    return value > 0 ? kInfinity : -kInfinity;
  }
  const auto nearest = static_cast<float>(value);
  return std::abs(nearest) < std::numeric_limits<float>::min() ? 0.0F : nearest;
}

std::string range_of(const RealRule& rule) {
  return "a number from " + text_of(rule.low) + " to " + text_of(rule.high);
}

}  // namespace phalanx::step
