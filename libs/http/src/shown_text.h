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

// One byte of it, for where it matters which: 'a', or byte 0x0d.
[[nodiscard]] inline std::string shown_byte(char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (byte > 0x20 && byte < 0x7F && byte != '\'' && byte != '"' && byte != '\\') {
    return std::string("'") + byte + "'";
  }
  const auto value = static_cast<unsigned char>(byte);
  return std::string("byte 0x") + kDigits[value >> 4U] + kDigits[value & 0xFU];
}

}  // namespace phalanx::http
