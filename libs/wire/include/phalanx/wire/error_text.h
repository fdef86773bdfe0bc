// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "phalanx/base/utf8.h"
#include "phalanx/wire/limits.h"

namespace phalanx::wire {

// A message that fits into a frame, cut between characters. What many processes say together, or a
// template, can be longer than one may be.
[[nodiscard]] inline std::string error_text(std::string_view message) {
  return std::string(utf8_prefix(message, kMaxErrorBytes));
}

}  // namespace phalanx::wire
