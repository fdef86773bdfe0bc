// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "phalanx/base/result.h"

namespace phalanx::jinja {

// The value of the inside of a string literal: escapes as in Python.
//
// Errors: kInvalidArgument  an escape that is cut short or names no character
[[nodiscard]] Result<std::string> unescape(std::string_view inside);

}  // namespace phalanx::jinja
