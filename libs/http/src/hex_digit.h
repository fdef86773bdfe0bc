// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace phalanx::http {

// The value of a hexadecimal digit, or -1.
[[nodiscard]] constexpr int hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace phalanx::http
