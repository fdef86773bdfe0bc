// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "regular_expression.h"

namespace phalanx::tokenizer {
namespace {

// Members of Unicode's White_Space, which is Oniguruma's \s, as the inside of a class.
constexpr std::string_view kSpaceMembers =
    "\\t-\\r "
    "\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}";

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// \p{L}, \p{Lu}: a general category. Longer names are scripts, but for these.
constexpr std::size_t kCategoryLetters = 2;

bool is_binary_property(std::string_view name) {
  constexpr std::array<std::string_view, 11> kNames = {"Any",
                                                       "ASCII",
                                                       "Alphabetic",
                                                       "Lowercase",
                                                       "Uppercase",
                                                       "White_Space",
                                                       "Ideographic",
                                                       "Emoji",
                                                       "Emoji_Presentation",
                                                       "Emoji_Modifier",
                                                       "Extended_Pictographic"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    while (position_ < pattern_.size()) {
      PHALANX_RETURN_IF_ERROR(in_class_ ? class_member() : element());
    }
    if (in_class_) {
      return unsupported("[ without ]");
    }
    return std::move(out_);
  }

 private:
  Error unsupported(std::string_view construct) const {
    return unimplemented("pattern \"" + std::string(pattern_) + "\": " + std::string(construct) +
                         " at offset " + std::to_string(position_) + " is not supported");
  }

  [[nodiscard]] bool next_is(std::string_view text) const {
    return pattern_.substr(position_).starts_with(text);
  }

  void take(std::size_t bytes) {
    out_.append(pattern_.substr(position_, bytes));
    position_ += bytes;
  }

  Status element() {
    switch (pattern_[position_]) {
      case '\\':
        return escape();
      case '[':
        in_class_ = true;
        take(1);
        class_negated_ = next_is("^");
        if (class_negated_) {
          take(1);
        }
        if (next_is("]")) {
          return unsupported("an empty class");
        }
        return ok();
      case '(':
        return group();
      case '{':
        return interval();
      default:
        take(1);
        return ok();
    }
  }

  Status group() {
    if (next_is("(*")) {
      return unsupported("a verb (*…)");
    }
    if (!next_is("(?")) {
      take(1);
      return ok();
    }
    if (position_ == 0 && next_is("(?i)")) {
      take(4);  // anywhere else the two engines bind the alternatives behind it differently
      return ok();
    }
    constexpr std::array<std::string_view, 7> kGroups{
        "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};
    for (const std::string_view known : kGroups) {
      if (next_is(known)) {
        take(known.size());
        return ok();
      }
    }
    return unsupported("a group that opens with \"" + std::string(pattern_.substr(position_, 4)) +
                       "\"");
  }

  // {n}, {n,} and {n,m}. Ruby reads {,m} as {0,m}, {n}+ as a repeated repetition and {n}? as one
  // that may be missing, PCRE2 reads none of them so.
  Status interval() {
    const std::size_t close = pattern_.find('}', position_);
    if (close == std::string_view::npos || next_is("{,")) {
      return unsupported("this use of {");
    }
    if (pattern_.substr(close + 1, 1) == "+") {
      return unsupported("an interval followed by +");
    }
    const bool is_exact =
        pattern_.substr(position_, close - position_).find(',') == std::string_view::npos;
    if (is_exact && pattern_.substr(close + 1, 1) == "?") {
      return unsupported("an interval of one number followed by ?");
    }
    take(close + 1 - position_);
    return ok();
  }

  Status class_member() {
    if (next_is("]")) {
      in_class_ = false;
      take(1);
      return ok();
    }
    if (next_is("[")) {
      return unsupported("a class inside a class");
    }
    if (next_is("&&")) {
      return unsupported("an intersection of classes");
    }
    if (next_is("\\")) {
      return escape();
    }
    take(1);
    return ok();
  }

  Status escape() {
    if (position_ + 1 == pattern_.size()) {
      return unsupported("a backslash at the end");
    }
    const char kind = pattern_[position_ + 1];
    switch (kind) {
      case 's':
      case 'S':
        return space(kind == 'S');
      case 'p':
      case 'P':
        return property();
      case 'x':
        return hex(next_is("\\x{"));
      case 'u':
        return unicode();
      case 'd':
      case 'D':
      case 'r':
      case 'n':
      case 't':
      case 'f':
        take(2);
        return ok();
      default:
        break;
    }
    if (is_alphanumeric(kind) || static_cast<unsigned char>(kind) >= 0x80) {
      return unsupported("\\" + std::string(1, kind));
    }
    take(2);
    return ok();
  }

  Status space(bool negated) {
    if (negated && in_class_ && class_negated_) {
      return unsupported("\\S inside a negated class");
    }
    position_ += 2;
    if (in_class_) {
      // PCRE2's \S lacks U+180E, which is not white space.
      out_.append(negated ? std::string_view("\\S\\x{180E}") : kSpaceMembers);
    } else {
      out_.append(negated ? "[^" : "[").append(kSpaceMembers).append("]");
    }
    return ok();
  }

  Status property() {
    const std::size_t close = pattern_.find('}', position_);
    if (pattern_.substr(position_ + 2, 1) != "{" || close == std::string_view::npos) {
      return unsupported("\\p without {…}");
    }
    const std::string_view all = pattern_.substr(position_ + 3, close - position_ - 3);
    const std::string_view name = all.substr(all.starts_with('^') ? 1 : 0);
    if (!std::all_of(
            name.begin(), name.end(), [](char c) { return is_alphanumeric(c) || c == '_'; })) {
      return unsupported("\\p{" + std::string(all) + "}");
    }
    if (name.size() <= kCategoryLetters || is_binary_property(name)) {
      take(close + 1 - position_);
      return ok();
    }
    // Of a script alone, PCRE2 takes the characters that are used with it, too.
    take(all.size() - name.size() + 3);
    out_.append("sc:");
    take(close + 1 - position_);
    return ok();
  }

  Status hex(bool braces) {
    std::size_t digits = position_ + (braces ? 3 : 2);
    const std::size_t first = digits;
    while (digits < pattern_.size() && is_hex(pattern_[digits]) &&
           digits - first < (braces ? 6U : 2U)) {
      ++digits;
    }
    if (digits == first || (braces && pattern_.substr(digits, 1) != "}")) {
      return unsupported("\\x without hexadecimal digits");
    }
    if (!braces && digits - first == 2 && pattern_[first] >= '8') {
      return unsupported("\\x80 to \\xFF without braces");  // a byte, and no character
    }
    take(digits + (braces ? 1 : 0) - position_);
    return ok();
  }

  Status unicode() {
    const std::string_view digits = pattern_.substr(position_ + 2, 4);
    if (digits.size() != 4 || !is_hex(digits[0]) || !is_hex(digits[1]) || !is_hex(digits[2]) ||
        !is_hex(digits[3])) {
      return unsupported("\\u without four hexadecimal digits");
    }
    out_.append("\\x{").append(digits).append("}");
    position_ += 6;
    return ok();
  }

  std::string_view pattern_;
  std::size_t position_ = 0;
  bool in_class_ = false;
  bool class_negated_ = false;
  std::string out_;
};

}  // namespace

Result<std::string> translate_pattern(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace phalanx::tokenizer
