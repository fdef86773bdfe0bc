// SPDX-License-Identifier: Apache-2.0
#include "lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "phalanx/base/utf8.h"

#include "string_literal.h"

namespace phalanx::jinja {
namespace {

using TokenKind = Token::Kind;

// Longest first.
constexpr std::array<std::string_view, 27> kOperators{
    "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">",
    "=",  "(",  ")",  "[",  "]",  "{",  "}", "|", ".", ",", ":", ";", "!"};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// Ends of line as \n, and the last one off, as Jinja does before it looks at anything.
std::string normalize_lines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text.push_back(source[i]);
    } else {
      text.push_back('\n');
      i += source.substr(i + 1, 1) == "\n" ? 1U : 0U;
    }
  }
  if (text.ends_with('\n')) {
    text.pop_back();
  }
  return text;
}

// Python's str.rstrip().
std::string_view without_trailing_space(std::string_view text) {
  while (!text.empty()) {
    std::size_t position = text.size();
    const char32_t c = previous_code_point(text, position);
    if (!is_white_space(c) && (c < 0x1C || c > 0x1F)) {
      break;
    }
    text = text.substr(0, position);
  }
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normalize_lines(source)), source_(text_) {}

  Result<std::vector<Token>> run() {
    while (position_ < source_.size()) {
      PHALANX_RETURN_IF_ERROR(text_and_tag());
    }
    add(TokenKind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  Error fail(std::string_view message) const { return invalid_argument(at_line(line_, message)); }

  void add(TokenKind kind, std::string text) {
    Token token;
    token.kind = kind;
    token.text = std::move(text);
    token.line = line_;
    tokens_.push_back(std::move(token));
  }

  [[nodiscard]] bool next_is(std::string_view text) const {
    return source_.substr(position_).starts_with(text);
  }

  // All movement goes through here, so that the line is right.
  void advance(std::size_t bytes) {
    const std::string_view passed = source_.substr(position_, bytes);
    line_ += static_cast<std::size_t>(std::count(passed.begin(), passed.end(), '\n'));
    position_ += passed.size();
    if (!passed.empty()) {
      at_line_start_ = passed.back() == '\n';
    }
  }

  void skip_space() {
    std::size_t count = 0;
    while (position_ + count < source_.size()) {
      std::size_t next = position_ + count;
      const char32_t c = next_code_point(source_, next);
      if (!is_white_space(c) && (c < 0x1C || c > 0x1F)) {
        break;
      }
      count = next - position_;
    }
    advance(count);
  }

  // Text up to the next tag, without what the tag takes off its end, then the tag itself.
  Status text_and_tag() {
    std::size_t tag = source_.find('{', position_);
    while (tag != std::string_view::npos && source_.substr(tag + 1, 1) != "{" &&
           source_.substr(tag + 1, 1) != "%" && source_.substr(tag + 1, 1) != "#") {
      tag = source_.find('{', tag + 1);
    }
    const std::string_view text =
        source_.substr(position_, tag == std::string_view::npos ? tag : tag - position_);
    if (tag == std::string_view::npos) {
      emit_text(text);
      advance(text.size());
      return ok();
    }
    const char kind = source_[tag + 1];
    const std::string_view sign = source_.substr(tag + 2, 1);
    const bool has_sign = sign == "-" || sign == "+";
    emit_text(left_stripped(text, kind, sign));
    advance(text.size() + 2 + (has_sign ? 1U : 0U));
    if (kind == '#') {
      return comment();
    }
    if (kind == '%' && is_raw()) {
      return raw();
    }
    add(kind == '{' ? TokenKind::kOutputBegin : TokenKind::kBlockBegin, {});
    return inside_tag(kind == '{');
  }

  void emit_text(std::string_view text) {
    if (!text.empty()) {
      add(TokenKind::kText, std::string(text));
    }
  }

  [[nodiscard]] std::string_view left_stripped(std::string_view text,
                                               char kind,
                                               std::string_view sign) const {
    if (sign == "-") {
      return without_trailing_space(text);
    }
    if (sign == "+" || kind == '{') {
      return text;
    }
    const std::size_t newline = text.rfind('\n');
    const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    const bool from_line_start = line > 0 || at_line_start_;
    const bool only_space = without_trailing_space(text.substr(line)).empty();
    return from_line_start && only_space ? text.substr(0, line) : text;
  }

  // Takes "-%}" and its like; `end` is the two-byte end of the tag.
  bool take_tag_end(std::string_view end, bool trims) {
    if (next_is("-") && source_.substr(position_ + 1).starts_with(end)) {
      advance(1 + end.size());
      skip_space();
      return true;
    }
    if (trims && next_is("+") && source_.substr(position_ + 1).starts_with(end)) {
      advance(1 + end.size());
      return true;
    }
    if (!next_is(end)) {
      return false;
    }
    advance(end.size());
    if (trims && next_is("\n")) {
      advance(1);
    }
    return true;
  }

  Status comment() {
    while (position_ < source_.size()) {
      if (take_tag_end("#}", /*trims=*/true)) {
        return ok();
      }
      advance(1);
    }
    return fail("a comment does not end");
  }

  // Whether "raw" and the end of the tag follow; moves behind them if so.
  bool is_raw() {
    std::size_t at = position_;
    while (at < source_.size() && is_space(source_[at])) {
      ++at;
    }
    if (!source_.substr(at).starts_with("raw")) {
      return false;
    }
    at += 3;
    while (at < source_.size() && is_space(source_[at])) {
      ++at;
    }
    const bool strips = source_.substr(at).starts_with("-%}");
    if (!strips && !source_.substr(at).starts_with("%}")) {
      return false;
    }
    advance(at + (strips ? 3U : 2U) - position_);
    if (strips) {
      skip_space();
    }
    return true;
  }

  Status raw() {
    const std::size_t begin = position_;
    for (std::size_t tag = source_.find("{%", begin); tag != std::string_view::npos;
         tag = source_.find("{%", tag + 2)) {
      std::size_t at = tag + 2;
      const std::string_view sign = source_.substr(at, 1);
      at += sign == "-" || sign == "+" ? 1U : 0U;
      while (at < source_.size() && is_space(source_[at])) {
        ++at;
      }
      if (!source_.substr(at).starts_with("endraw")) {
        continue;
      }
      const std::string_view text = source_.substr(begin, tag - begin);
      emit_text(left_stripped(text, '%', sign));
      advance(at + 6 - position_);
      while (position_ < source_.size() && is_space(source_[position_])) {
        advance(1);
      }
      return take_tag_end("%}", /*trims=*/true) ? ok() : Status(fail("endraw does not end"));
    }
    return fail("raw without endraw");
  }

  Status inside_tag(bool is_output) {
    const std::string_view end = is_output ? "}}" : "%}";
    open_.clear();
    while (position_ < source_.size()) {
      // Inside brackets "}}" closes two of them.
      if (open_.empty() && take_tag_end(end, !is_output)) {
        add(is_output ? TokenKind::kOutputEnd : TokenKind::kBlockEnd, {});
        return ok();
      }
      PHALANX_RETURN_IF_ERROR(token());
    }
    return fail("a tag does not end");
  }

  Status token() {
    const char c = source_[position_];
    if (is_space(c)) {
      skip_space();
      return ok();
    }
    if (is_digit(c)) {
      return number();
    }
    if (is_name_start(c)) {
      std::size_t end = position_;
      while (end < source_.size() && (is_name_start(source_[end]) || is_digit(source_[end]))) {
        ++end;
      }
      add(TokenKind::kName, std::string(source_.substr(position_, end - position_)));
      advance(end - position_);
      return ok();
    }
    if (c == '"' || c == '\'') {
      return string(c);
    }
    return operator_token();
  }

  Status string(char quote) {
    std::size_t end = position_ + 1;
    while (end < source_.size() && source_[end] != quote) {
      end += source_[end] == '\\' ? 2U : 1U;
    }
    if (end >= source_.size()) {
      return fail("a string does not end");
    }
    Result<std::string> value = unescape(source_.substr(position_ + 1, end - position_ - 1));
    if (!value) {
      return Error(value.error().code(), at_line(line_, value.error().message()));
    }
    add(TokenKind::kString, *std::move(value));
    advance(end + 1 - position_);
    return ok();
  }

  Status number() {
    std::string digits;
    bool is_float = false;
    std::size_t at = position_;
    const auto take_digits = [&] {
      while (at < source_.size() && (is_digit(source_[at]) || source_[at] == '_')) {
        if (source_[at] != '_') {
          digits.push_back(source_[at]);
        }
        ++at;
      }
    };
    take_digits();
    // After a dot a number is an index: `x.0.1` has no fraction in it.
    const bool is_index = !tokens_.empty() && tokens_.back().is_operator(".");
    if (!is_index && source_.substr(at, 1) == "." && at + 1 < source_.size() &&
        is_digit(source_[at + 1])) {
      is_float = true;
      digits.push_back('.');
      ++at;
      take_digits();
    }
    if (!is_index && (source_.substr(at, 1) == "e" || source_.substr(at, 1) == "E")) {
      is_float = true;
      digits.push_back('e');
      ++at;
      if (source_.substr(at, 1) == "+" || source_.substr(at, 1) == "-") {
        digits.push_back(source_[at++]);
      }
      take_digits();
    }
    if (at < source_.size() && is_name_start(source_[at])) {
      return fail("a number with a letter in it");
    }
    return add_number(digits, is_float, at - position_);
  }

  Status add_number(const std::string& digits, bool is_float, std::size_t bytes) {
    Token token;
    token.kind = is_float ? TokenKind::kFloat : TokenKind::kInteger;
    token.line = line_;
    token.text = digits;
    const char* const end = digits.data() + digits.size();
    const auto parsed = is_float ? std::from_chars(digits.data(), end, token.real)
                                 : std::from_chars(digits.data(), end, token.integer);
    if (parsed.ec != std::errc() || parsed.ptr != end) {
      return fail("bad number \"" + digits + "\"");
    }
    tokens_.push_back(std::move(token));
    advance(bytes);
    return ok();
  }

  Status operator_token() {
    for (const std::string_view op : kOperators) {
      if (!next_is(op)) {
        continue;
      }
      if (op == "(" || op == "[" || op == "{") {
        open_.push_back(op == "(" ? ')' : op == "[" ? ']' : '}');
      } else if (op == ")" || op == "]" || op == "}") {
        if (open_.empty() || open_.back() != op[0]) {
          return fail("unexpected \"" + std::string(op) + "\"");
        }
        open_.pop_back();
      }
      add(TokenKind::kOperator, std::string(op));
      advance(op.size());
      return ok();
    }
    std::size_t end = position_;
    static_cast<void>(next_code_point(source_, end));
    return fail("unexpected character \"" +
                std::string(source_.substr(position_, end - position_)) + "\"");
  }

  std::string text_;
  std::string_view source_;
  std::size_t position_ = 0;
  std::size_t line_ = 1;
  bool at_line_start_ = true;
  std::string open_;  // closing brackets that are due
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) {
  return Lexer(source).run();
}

std::string at_line(std::size_t line, std::string_view message) {
  return "line " + std::to_string(line) + ": " + std::string(message);
}

}  // namespace phalanx::jinja
