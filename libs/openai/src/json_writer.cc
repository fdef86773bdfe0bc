// SPDX-License-Identifier: Apache-2.0
#include "json_writer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>

namespace phalanx::openai {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

unsigned char byte_at(std::string_view text, std::size_t index) {
  return static_cast<unsigned char>(text[index]);
}

template <typename Number>
void append_number(std::string& out, Number value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
  // A real number stays one when it is read again.
  if (std::is_floating_point_v<Number> &&
      std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data()))
              .find_first_of(".e") == std::string_view::npos) {
    out.append(".0");
  }
}

void append_escaped(std::string& out, unsigned char c) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  switch (c) {
    case '"':
      out.append("\\\"");
      return;
    case '\\':
      out.append("\\\\");
      return;
    case '\n':
      out.append("\\n");
      return;
    case '\r':
      out.append("\\r");
      return;
    case '\t':
      out.append("\\t");
      return;
    default:
      out.append("\\u00").push_back(kDigits[c >> 4U]);
      out.push_back(kDigits[c & 15U]);
  }
}

void append_quoted(std::string& out, std::string_view text) {
  out.push_back('"');
  std::size_t i = 0;
  while (i < text.size()) {
    const unsigned char c = byte_at(text, i);
    if (c >= 0x20 && c < 0x7F && c != '"' && c != '\\') {
      out.push_back(static_cast<char>(c));
      ++i;
    } else if (c < 0x80) {
      append_escaped(out, c);
      ++i;
    } else if (const std::size_t length = utf8_length(text.substr(i)); length > 0) {
      out.append(text, i, length);
      i += length;
    } else {
      out.append(kReplacement);
      ++i;
    }
  }
  out.push_back('"');
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

std::string json_quoted(std::string_view text) {
  std::string out;
  append_quoted(out, text);
  return out;
}

void JsonWriter::separate() {
  if (comma_) {
    out_.push_back(',');
  }
  comma_ = true;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_.push_back(bracket);
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_.push_back(bracket);
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  append_quoted(out_, name);
  out_.push_back(':');
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::text(std::string_view value) {
  separate();
  append_quoted(out_, value);
  return *this;
}

JsonWriter& JsonWriter::integer(std::int64_t value) {
  separate();
  append_number(out_, value);
  return *this;
}

JsonWriter& JsonWriter::unsigned_integer(std::uint64_t value) {
  separate();
  append_number(out_, value);
  return *this;
}

JsonWriter& JsonWriter::real(double value) {
  if (!std::isfinite(value)) {
    return null();
  }
  separate();
  append_number(out_, value);
  return *this;
}

JsonWriter& JsonWriter::real(float value) {
  if (!std::isfinite(value)) {
    return null();
  }
  separate();
  append_number(out_, value);
  return *this;
}

JsonWriter& JsonWriter::boolean(bool value) {
  separate();
  out_.append(value ? "true" : "false");
  return *this;
}

JsonWriter& JsonWriter::null() {
  separate();
  out_.append("null");
  return *this;
}

// Recursion is bounded by the depth that parse_json() lets through.
JsonWriter& JsonWriter::value(const JsonValue& value) {
  if (const bool* flag = value.as_bool()) {
    return boolean(*flag);
  }
  if (const auto* number = value.as_int()) {
    return integer(*number);
  }
  if (const double* number = value.as_double()) {
    return real(*number);
  }
  if (const std::string* string = value.as_string()) {
    return text(*string);
  }
  if (const auto* array = value.as_array()) {
    begin_array();
    for (const JsonValue& element : *array) {
      this->value(element);
    }
    return end_array();
  }
  if (const auto* object = value.as_object()) {
    begin_object();
    for (const auto& [name, member] : *object) {
      key(name).value(member);
    }
    return end_object();
  }
  return null();
}

}  // namespace phalanx::openai
