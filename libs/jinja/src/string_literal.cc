// SPDX-License-Identifier: Apache-2.0
#include "string_literal.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "phalanx/base/utf8.h"

namespace phalanx::jinja {
namespace {

constexpr std::array<std::pair<char, char>, 10> kShortEscapes{{{'n', '\n'},
                                                               {'t', '\t'},
                                                               {'r', '\r'},
                                                               {'\\', '\\'},
                                                               {'\'', '\''},
                                                               {'"', '"'},
                                                               {'a', '\a'},
                                                               {'b', '\b'},
                                                               {'f', '\f'},
                                                               {'v', '\v'}}};

std::optional<char> short_escape(char kind) {
  for (const auto& [name, value] : kShortEscapes) {
    if (name == kind) {
      return value;
    }
  }
  return std::nullopt;
}

std::size_t hex_digits(char kind) {
  return kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
}

// \xHH, \uHHHH, \UHHHHHHHH at `position`, which moves behind it.
Status append_hex(std::string_view inside, std::size_t& position, std::string& out) {
  const std::size_t digits = hex_digits(inside[position + 1]);
  const std::string_view text = inside.substr(position + 2, digits);
  std::uint32_t code_point = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), code_point, 16);
  if (text.size() != digits || parsed.ptr != text.data() + text.size() ||
      parsed.ec != std::errc() || code_point > 0x10FFFF ||
      (code_point >= 0xD800 && code_point < 0xE000)) {
    return invalid_argument("bad escape \"" + std::string(inside.substr(position, digits + 2)) +
                            "\" in a string");
  }
  append_utf8(code_point, out);
  position += digits + 2;
  return ok();
}

// \N, \NN, \NNN in base 8.
void append_octal(std::string_view inside, std::size_t& position, std::string& out) {
  char32_t code_point = 0;
  ++position;
  for (int i = 0;
       i < 3 && position < inside.size() && inside[position] >= '0' && inside[position] <= '7';
       ++i) {
    code_point = code_point * 8 + static_cast<char32_t>(inside[position++] - '0');
  }
  append_utf8(code_point, out);
}

}  // namespace

Result<std::string> unescape(std::string_view inside) {
  std::string out;
  for (std::size_t i = 0; i < inside.size();) {
    if (inside[i] != '\\' || i + 1 == inside.size()) {
      out.push_back(inside[i++]);
      continue;
    }
    const char kind = inside[i + 1];
    if (const std::optional<char> value = short_escape(kind)) {
      out.push_back(*value);
      i += 2;
    } else if (kind == '\n') {
      i += 2;  // a line that goes on
    } else if (hex_digits(kind) != 0) {
      PHALANX_RETURN_IF_ERROR(append_hex(inside, i, out));
    } else if (kind >= '0' && kind <= '7') {
      append_octal(inside, i, out);
    } else if (kind == 'N') {
      return unimplemented("the escape \\N in a string is not supported");
    } else {
      out.push_back('\\');  // Python keeps what is no escape
      ++i;
    }
  }
  return out;
}

}  // namespace phalanx::jinja
