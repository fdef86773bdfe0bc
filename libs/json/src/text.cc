// SPDX-License-Identifier: Apache-2.0
#include "phalanx/json/text.h"

#include <array>
#include <cstdint>

#include "phalanx/base/utf8.h"

namespace phalanx::json {
namespace {

constexpr std::uint32_t kReplacement = 0xFFFD;

// By byte: it stands in a string as it is, whatever stands beside it.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (std::size_t c = 0x20; c < 0x7F; ++c) {
    plain[c] = c != '"' && c != '\\';
  }
  return plain;
}();

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

}  // namespace

void append_escaped(std::string_view text, Characters characters, std::string& out) {
  const bool ascii = characters == Characters::kAscii;
  std::size_t copied = 0;
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char c = byte_at(text, i);
    if (kPlain[c]) {
      ++i;
      continue;
    }
    const Utf8Unit unit = next_utf8_unit(text.substr(i));
    const bool valid = unit.kind == Utf8Unit::Kind::kCharacter;
    if (valid && c >= 0x7F && !ascii) {
      i += unit.bytes;
      continue;
    }
    out.append(text, copied, i - copied);
    if (valid) {
      append_escape(next_code_point(text, i), out);
    } else {
      ascii ? append_escape(kReplacement, out)
            : static_cast<void>(out.append(kReplacementCharacter));
      ++i;
    }
    copied = i;
  }
  out.append(text, copied, text.size() - copied);
}

}  // namespace phalanx::json
