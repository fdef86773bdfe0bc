// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "phalanx/base/result.h"

namespace phalanx::load {

// The whole text as a number from `min` to `max`.
// Errors: kInvalidArgument, with the range and what came
[[nodiscard]] Result<double> parse_number(const std::string& text, double min, double max);
[[nodiscard]] Result<std::int64_t> parse_integer(const std::string& text,
                                                 std::int64_t min,
                                                 std::int64_t max);

}  // namespace phalanx::load
