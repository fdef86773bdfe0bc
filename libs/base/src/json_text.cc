// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/json_text.h"

#include <array>
#include <cstdint>

namespace phalanx {
namespace {

constexpr std::uint32_t kReplacement = 0xFFFD;

unsigned char byte_at(std::string_view text, std::size_t index) {
  return static_cast<unsigned char>(text[index]);
}

void append_unit(std::uint32_t unit, std::string& out) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out.append("\\u");
  for (int shift = 12; shift >= 0; shift -= 4) {
    out.push_back(kDigits[(unit >> static_cast<unsigned>(shift)) & 0xFU]);
  }
}

void append_escape(std::uint32_t c, std::string& out) {
  constexpr std::string_view kNamed = "\"\\\n\r\t\b\f";
  constexpr std::string_view kNames = "\"\\nrtbf";
  const std::size_t named = c < 0x80 ? kNamed.find(static_cast<char>(c)) : std::string_view::npos;
  if (named != std::string_view::npos) {
    out.push_back('\\');
    out.push_back(kNames[named]);
  } else if (c >= 0x10000) {
    append_unit(0xD800U + ((c - 0x10000U) >> 10U), out);
    append_unit(0xDC00U + ((c - 0x10000U) & 0x3FFU), out);
  } else {
    append_unit(c, out);
  }
}

// The character of `length` bytes, which are valid UTF-8.
std::uint32_t code_point(std::string_view text, std::size_t length) {
  constexpr std::array<unsigned, 5> kFirstBits{0, 0x7F, 0x1F, 0x0F, 0x07};
  std::uint32_t value = byte_at(text, 0) & kFirstBits[length];
  for (std::size_t i = 1; i < length; ++i) {
    value = (value << 6U) | (byte_at(text, i) & 0x3FU);
  }
  return value;
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  const unsigned char first = byte_at(text, 0);
  if (first < 0x80) {
    return 1;
  }
  // The second byte's range keeps out overlong forms, surrogates and what lies past U+10FFFF.
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  std::size_t length = 0;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    low = first == 0xE0 ? 0xA0 : low;
    high = first == 0xED ? 0x9F : high;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    low = first == 0xF0 ? 0x90 : low;
    high = first == 0xF4 ? 0x8F : high;
  }
  if (length == 0 || text.size() < length || byte_at(text, 1) < low || byte_at(text, 1) > high) {
    return 0;
  }
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte_at(text, i) & 0xC0U) != 0x80U) {
      return 0;
    }
  }
  return length;
}

void append_json_escaped(std::string_view text, JsonCharacters characters, std::string& out) {
  const bool ascii = characters == JsonCharacters::kAscii;
  std::size_t copied = 0;
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char c = byte_at(text, i);
    if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\' && !(ascii && c == 0x7F)) {
      ++i;
      continue;
    }
    const std::size_t length = c < 0x80 ? 1 : utf8_length(text.substr(i));
    if (c >= 0x80 && length > 0 && !ascii) {
      i += length;
      continue;
    }
    out.append(text, copied, i - copied);
    if (length > 0) {
      append_escape(code_point(text.substr(i), length), out);
    } else if (ascii) {
      append_escape(kReplacement, out);
    } else {
      out.append("\xEF\xBF\xBD");
    }
    i += length > 0 ? length : 1;
    copied = i;
  }
  out.append(text, copied, text.size() - copied);
}

}  // namespace phalanx
