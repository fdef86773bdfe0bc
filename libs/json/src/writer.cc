// SPDX-License-Identifier: Apache-2.0
#include "phalanx/json/writer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>

namespace phalanx::json {
namespace {

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

void append_quoted(std::string& out, std::string_view text, Characters characters) {
  out.push_back('"');
  append_escaped(text, characters, out);
  out.push_back('"');
}

}  // namespace

std::string quote(std::string_view text) {
  std::string out;
  append_quoted(out, text, Characters::kUtf8);
  return out;
}

void Writer::separate() {
  if (comma_) {
    out_.push_back(',');
  }
  comma_ = true;
}

Writer& Writer::open(char bracket) {
  separate();
  out_.push_back(bracket);
  comma_ = false;
  return *this;
}

Writer& Writer::close(char bracket) {
  out_.push_back(bracket);
  comma_ = true;
  return *this;
}

Writer& Writer::key(std::string_view name) {
  out_.append(comma_ ? ",\"" : "\"");
  append_escaped(name, characters_, out_);
  out_.append("\":");
  comma_ = false;
  return *this;
}

Writer& Writer::text(std::string_view value) {
  separate();
  append_quoted(out_, value, characters_);
  return *this;
}

Writer& Writer::integer(std::int64_t value) {
  separate();
  append_number(out_, value);
  return *this;
}

Writer& Writer::unsigned_integer(std::uint64_t value) {
  separate();
  append_number(out_, value);
  return *this;
}

Writer& Writer::real(double value) {
  if (!std::isfinite(value)) {
    return null();
  }
  separate();
  append_number(out_, value);
  return *this;
}

Writer& Writer::real(float value) {
  if (!std::isfinite(value)) {
    return null();
  }
  separate();
  append_number(out_, value);
  return *this;
}

Writer& Writer::boolean(bool value) {
  separate();
  out_.append(value ? "true" : "false");
  return *this;
}

Writer& Writer::null() {
  separate();
  out_.append("null");
  return *this;
}

// Recursion is bounded by the depth that parse() lets through.
Writer& Writer::value(const Value& value) {
  if (const bool* flag = value.as_bool()) {
    return boolean(*flag);
  }
  if (const auto* number = value.as_int()) {
    return integer(*number);
  }
  if (const auto* big = value.as_big_int()) {
    separate();
    out_.append(*big->digits);
    return *this;
  }
  if (const double* number = value.as_double()) {
    return real(*number);
  }
  if (const std::string* string = value.as_string()) {
    return text(*string);
  }
  if (const auto* array = value.as_array()) {
    begin_array();
    for (const Value& element : *array) {
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

}  // namespace phalanx::json
