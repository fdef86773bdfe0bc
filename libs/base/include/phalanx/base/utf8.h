// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace phalanx {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// The next unit of a byte stream that should be UTF-8.
struct Utf8Unit {
  enum class Kind {
    kCharacter,   // a well-formed character of `bytes` bytes
    kIllFormed,   // a maximal ill-formed part: one U+FFFD stands for it
    kUnfinished,  // the end cuts a character that is well-formed so far
  };
  Kind kind;
  std::size_t bytes;
};

// Requires: !rest.empty().
[[nodiscard]] Utf8Unit next_utf8_unit(std::string_view rest);

[[nodiscard]] bool is_valid_utf8(std::string_view text);

// Appends `bytes` with each maximal ill-formed part replaced by U+FFFD, as the Unicode standard
// recommends and the decoders of Rust, Python and browsers do.
void append_replacing(std::string_view bytes, std::string& out);

// The code point at `position` of valid UTF-8; `position` moves behind it.
[[nodiscard]] char32_t next_code_point(std::string_view text, std::size_t& position);

// The code point that ends before `position`; `position` moves to its start. Requires position > 0.
[[nodiscard]] char32_t previous_code_point(std::string_view text, std::size_t& position);

void append_utf8(char32_t code_point, std::string& out);

// The longest beginning of `text` of at most `most` bytes that does not end within a character.
// What is no UTF-8 is cut there, or up to three bytes before.
[[nodiscard]] std::string_view utf8_prefix(std::string_view text, std::size_t most);

// Number of code points of valid UTF-8.
[[nodiscard]] std::size_t count_code_points(std::string_view text);

// Length of the leading part of `text` that is ASCII.
[[nodiscard]] std::size_t ascii_prefix(std::string_view text);

// Unicode's White_Space property.
[[nodiscard]] bool is_white_space(char32_t code_point);

}  // namespace phalanx
