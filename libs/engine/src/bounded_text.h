// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "phalanx/wire/limits.h"

namespace phalanx::engine {

// A message that fits into a frame. What many ranks say together can be longer than one may be.
[[nodiscard]] inline std::string bounded_text(std::string text) {
  if (text.size() > wire::kMaxErrorBytes) {
    text.resize(wire::kMaxErrorBytes);
  }
  return text;
}

}  // namespace phalanx::engine
