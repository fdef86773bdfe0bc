// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace phalanx::http {

[[nodiscard]] constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

[[nodiscard]] constexpr bool is_alphanumeric(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

[[nodiscard]] constexpr bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

// Of both ends.
[[nodiscard]] constexpr std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_blank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

// Of a token: a method, the name of a field.
[[nodiscard]] constexpr bool is_token_character(char c) {
  return is_alphanumeric(c) ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

// Of the value of a field, or a chunk extension.
[[nodiscard]] constexpr bool is_field_character(char c) {
  return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
}

}  // namespace phalanx::http
