// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/printable.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "phalanx/base/utf8.h"

namespace phalanx {

namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// General categories Cc, Cf, Zl and Zp of Unicode 15, except for the zero width joiners, which
// spell words of several scripts.
constexpr Range kNotShown[] = {
    {0x00, 0x1F},       {0x7F, 0x9F},       {0xAD, 0xAD},       {0x600, 0x605},
    {0x61C, 0x61C},     {0x6DD, 0x6DD},     {0x70F, 0x70F},     {0x890, 0x891},
    {0x8E2, 0x8E2},     {0x180E, 0x180E},   {0x200B, 0x200B},   {0x200E, 0x200F},
    {0x2028, 0x202E},   {0x2060, 0x206F},   {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB},
    {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3},
    {0x1D173, 0x1D17A}, {0xE0000, 0xE007F}};

bool is_shown(char32_t code_point) {
  return std::none_of(std::begin(kNotShown), std::end(kNotShown), [&](const Range& range) {
    return code_point >= range.first && code_point <= range.last;
  });
}

void append_number(const char* format, unsigned number, std::string& out) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), format, number);
  out += text.data();
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Unit unit = next_utf8_unit(text);
    const std::string_view bytes = text.substr(0, unit.bytes);
    text.remove_prefix(unit.bytes);
    if (unit.kind != Utf8Unit::Kind::kCharacter) {
      for (const char byte : bytes) {
        append_number("\\x%02x", static_cast<std::uint8_t>(byte), out);
      }
      continue;
    }
    std::size_t position = 0;
    const char32_t code_point = next_code_point(bytes, position);
    if (is_shown(code_point)) {
      out += bytes;
    } else {
      append_number("\\u{%x}", static_cast<unsigned>(code_point), out);
    }
  }
  return out;
}

}  // namespace phalanx
