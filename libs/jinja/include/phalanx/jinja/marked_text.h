// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "phalanx/base/byte_ranges.h"

namespace phalanx::jinja {

// A string that knows which of its bytes came from the user. All text that a template handles is
// of this type, so that the mark survives whatever the template does with the text.
class MarkedText {
 public:
  MarkedText() = default;

  // Text of the template.
  [[nodiscard]] static MarkedText literal(std::string text) {
    MarkedText result;
    result.text_ = std::move(text);
    return result;
  }

  [[nodiscard]] static MarkedText user(std::string text) {
    MarkedText result;
    result.text_ = std::move(text);
    result.user_.append({0, result.text_.size()});
    return result;
  }

  // All user data or none, as `source` has some or none: for text computed from another.
  [[nodiscard]] static MarkedText like(const MarkedText& source, std::string text) {
    return source.has_user_data() ? user(std::move(text)) : literal(std::move(text));
  }

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::string_view view() const { return text_; }
  [[nodiscard]] const ByteRanges& user_data() const { return user_; }
  [[nodiscard]] bool has_user_data() const { return !user_.empty(); }
  [[nodiscard]] std::size_t size() const { return text_.size(); }
  [[nodiscard]] bool empty() const { return text_.empty(); }

  void reserve(std::size_t bytes) { text_.reserve(bytes); }
  void append_literal(std::string_view text) { text_.append(text); }
  void append_user(std::string_view text) {
    user_.append({text_.size(), text_.size() + text.size()});
    text_.append(text);
  }
  void append(const MarkedText& other) {
    user_.append(other.user_, text_.size());
    text_.append(other.text_);
  }
  // Appends text computed from `source`, marked if any of the source is.
  void append_like(const MarkedText& source, std::string_view text) {
    source.has_user_data() ? append_user(text) : append_literal(text);
  }

  // The bytes from `begin` to `end`, with their marks.
  [[nodiscard]] MarkedText slice(std::size_t begin, std::size_t end) const {
    MarkedText result;
    result.text_ = text_.substr(begin, end - begin);
    if (!user_.empty()) {
      result.user_ = user_.within({begin, end});
    }
    return result;
  }

 private:
  std::string text_;
  ByteRanges user_;
};

// Without the characters of `characters` at the sides named, or without white space if it is null:
// Python's str.strip(), lstrip() and rstrip().
enum class Side { kLeft, kRight, kBoth };
[[nodiscard]] MarkedText strip(const MarkedText& text, const MarkedText* characters, Side side);

using TextPtr = std::shared_ptr<const MarkedText>;

}  // namespace phalanx::jinja
