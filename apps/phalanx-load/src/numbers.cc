// SPDX-License-Identifier: Apache-2.0
#include "numbers.h"

#include <charconv>

namespace phalanx::load {

Result<double> parse_number(const std::string& text, double min, double max) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= min) ||
      !(value <= max)) {
    return invalid_argument("expected a number from " + std::to_string(min) + " to " +
                            std::to_string(max) + ", came \"" + text + "\"");
  }
  return value;
}

Result<std::int64_t> parse_integer(const std::string& text, std::int64_t min, std::int64_t max) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) {
    return invalid_argument("expected a whole number from " + std::to_string(min) + " to " +
                            std::to_string(max) + ", came \"" + text + "\"");
  }
  return value;
}

}  // namespace phalanx::load
