// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "phalanx/http/message.h"

namespace phalanx::http {

inline constexpr std::string_view kAbsoluteScheme = "http://";

// "host:80" of the target "http://host:80/a?b", which may be empty; nothing if the target is not
// absolute.
[[nodiscard]] inline std::optional<std::string_view> authority_of_target(std::string_view target) {
  if (!equal_ignoring_case(target.substr(0, kAbsoluteScheme.size()), kAbsoluteScheme)) {
    return std::nullopt;
  }
  target.remove_prefix(kAbsoluteScheme.size());
  return target.substr(0, target.find_first_of("/?"));
}

}  // namespace phalanx::http
