// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/utf8.h"
#include "phalanx/wire/limits.h"

namespace phalanx::wire {

// A message as it fits into a frame, cut between characters. What many processes say together, or a
// template, can be longer than one may be.
[[nodiscard]] inline std::string error_text(std::string_view message) {
  return std::string(utf8_prefix(message, kMaxErrorBytes));
}

// An error as frames carry it, in two fields, and back.
[[nodiscard]] inline std::uint32_t error_code(const Error& error) {
  return static_cast<std::uint32_t>(error.code());
}
[[nodiscard]] inline Error error_of(std::uint32_t code, std::string message) {
  return {static_cast<Code>(code), std::move(message)};
}

}  // namespace phalanx::wire
