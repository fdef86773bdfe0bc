// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <string_view>

namespace phalanx {

// As text.find(part, from), in time that does not grow with their product: for two texts that come
// from outside.
[[nodiscard]] inline std::size_t find_text(std::string_view text,
                                           std::string_view part,
                                           std::size_t from = 0) {
  if (from > text.size() || part.size() > text.size() - from) {
    return std::string_view::npos;
  }
  if (part.empty()) {
    return from;  // which memmem() must not be asked, as there may be no text at all
  }
  const void* const found =
      ::memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

}  // namespace phalanx
