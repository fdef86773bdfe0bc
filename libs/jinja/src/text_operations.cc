// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <utf8proc.h>

#include "phalanx/base/find_text.h"
#include "phalanx/base/utf8.h"

#include "builtins.h"
#include "interpreter.h"

namespace phalanx::jinja {
namespace {

bool is_letter(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
      return true;
    default:
      return false;
  }
}

constexpr char32_t kSharpS = 0xDF;

enum class Shape { kLower, kUpper, kTitle };

char32_t simple(char32_t c, Shape shape) {
  const auto code = static_cast<utf8proc_int32_t>(c);
  return static_cast<char32_t>(shape == Shape::kLower   ? utf8proc_tolower(code)
                               : shape == Shape::kUpper ? utf8proc_toupper(code)
                                                        : utf8proc_totitle(code));
}

// A small letter without a capital of its own ("ß") has the capitals of the letters that it folds
// to ("SS", "Ss").
void append_cased(char32_t c, Shape shape, std::string& out) {
  const auto code = static_cast<utf8proc_int32_t>(c);
  const char32_t mapped = simple(c, shape);
  std::array<utf8proc_int32_t, 4> folded{};
  // The capital that Unicode added to "ß" later is nobody's mapping.
  const bool has_none = mapped == c || c == kSharpS;
  const bool may_fold =
      shape != Shape::kLower && has_none && utf8proc_category(code) == UTF8PROC_CATEGORY_LL;
  const utf8proc_ssize_t count =
      may_fold ? utf8proc_decompose_char(code,
                                         folded.data(),
                                         static_cast<utf8proc_ssize_t>(folded.size()),
                                         UTF8PROC_CASEFOLD,
                                         nullptr)
               : 0;
  if (count < 2 || count > static_cast<utf8proc_ssize_t>(folded.size())) {
    append_utf8(mapped, out);
    return;
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const auto part = static_cast<char32_t>(folded[i]);
    append_utf8(i == 0 || shape == Shape::kUpper ? simple(part, Shape::kUpper) : part, out);
  }
}

}  // namespace

bool is_strip_space(char32_t c) {
  // Python counts the four information separators as space, Unicode's property does not.
  return is_white_space(c) || (c >= 0x1C && c <= 0x1F);
}

MarkedText strip(const MarkedText& text, const MarkedText* characters, Side side) {
  const std::string_view view = text.view();
  // Sorted and not hashed: whoever chooses them can make hashes collide.
  std::vector<char32_t> named;
  for (std::size_t i = 0; characters != nullptr && i < characters->size();) {
    named.push_back(next_code_point(characters->view(), i));
  }
  std::sort(named.begin(), named.end());
  const auto goes = [&](char32_t c) {
    return characters == nullptr ? is_strip_space(c)
                                 : std::binary_search(named.begin(), named.end(), c);
  };
  std::size_t begin = 0;
  while (side != Side::kRight && begin < view.size()) {
    std::size_t next = begin;
    if (!goes(next_code_point(view, next))) {
      break;
    }
    begin = next;
  }
  std::size_t end = view.size();
  while (side != Side::kLeft && end > begin) {
    std::size_t previous = end;
    if (!goes(previous_code_point(view, previous))) {
      break;
    }
    end = previous;
  }
  return text.slice(begin, end);
}

MarkedText replace_all(const MarkedText& text,
                       std::string_view from,
                       const MarkedText& to,
                       std::int64_t count) {
  MarkedText result;
  std::size_t copied = 0;
  std::size_t position = 0;
  while (count != 0) {
    // An empty pattern stands before every character and at the end.
    const std::size_t found = find_text(text.view(), from, position);
    if (found == std::string_view::npos) {
      break;
    }
    result.append(text.slice(copied, found));
    result.append(to);
    copied = found + from.size();
    position = copied;
    --count;
    if (from.empty()) {
      if (position == text.size()) {
        break;
      }
      static_cast<void>(next_code_point(text.view(), position));
    }
  }
  result.append(text.slice(copied, text.size()));
  return result;
}

Result<std::vector<MarkedText>> lines_of(Interpreter& interpreter, const MarkedText& text) {
  std::vector<MarkedText> lines;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = i;
    const char32_t c = next_code_point(text.view(), i);
    const bool ends_line = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                           c == 0x2028 || c == 0x2029;
    if (!ends_line) {
      continue;
    }
    PHALANX_RETURN_IF_ERROR(interpreter.charge(kTextBytes));
    lines.push_back(text.slice(begin, end));
    if (c == '\r' && text.view().substr(i, 1) == "\n") {
      ++i;
    }
    begin = i;
  }
  if (begin < text.size()) {
    lines.push_back(text.slice(begin, text.size()));
  }
  return lines;
}

MarkedText change_case(const MarkedText& text, Case to) {
  std::string changed;
  bool word_begins = true;
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text.view(), i);
    const bool upper = to == Case::kUpper || (to != Case::kLower && word_begins);
    append_cased(c,
                 !upper               ? Shape::kLower
                 : to == Case::kUpper ? Shape::kUpper
                                      : Shape::kTitle,
                 changed);
    word_begins = to == Case::kTitle && !is_letter(c);
  }
  return MarkedText::like(text, std::move(changed));
}

}  // namespace phalanx::jinja
