// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace phalanx::http {

// What a client sent, short and harmless enough for a message: visible ASCII, at most 100 bytes.
[[nodiscard]] inline std::string shown_text(std::string_view text) {
  constexpr std::size_t kMaxBytes = 100;
  std::string out(text.substr(0, kMaxBytes));
  for (char& c : out) {
    c = c >= 0x20 && c < 0x7F && c != '"' && c != '\\' ? c : '?';
  }
  return out + (text.size() > kMaxBytes ? "..." : "");
}

}  // namespace phalanx::http
