// SPDX-License-Identifier: Apache-2.0
#include "phalanx/gguf/metadata.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "phalanx/base/check.h"

#include "numbers.h"

namespace phalanx::gguf {
namespace {

constexpr std::size_t kShownBytes = 64;

// An integer of any of the file's types: uint64 values beyond int64 are kept apart by `large`.
struct Integer {
  std::int64_t value = 0;
  bool large = false;
};

bool is_integer(ValueType type) {
  return is_number(type) && type != ValueType::kFloat32 && type != ValueType::kFloat64;
}

template <typename T>
Integer integer_as(const std::byte* from) {
  return {static_cast<std::int64_t>(load<T>(from)), false};
}

Integer integer_at(ValueType type, const std::byte* from) {
  switch (type) {
    case ValueType::kUint8:
      return integer_as<std::uint8_t>(from);
    case ValueType::kInt8:
      return integer_as<std::int8_t>(from);
    case ValueType::kUint16:
      return integer_as<std::uint16_t>(from);
    case ValueType::kInt16:
      return integer_as<std::int16_t>(from);
    case ValueType::kUint32:
      return integer_as<std::uint32_t>(from);
    case ValueType::kInt32:
      return integer_as<std::int32_t>(from);
    case ValueType::kInt64:
      return integer_as<std::int64_t>(from);
    default: {
      const auto value = load<std::uint64_t>(from);
      constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
      return {static_cast<std::int64_t>(value), value > kMost};
    }
  }
}

double number_at(ValueType type, const std::byte* from) {
  if (type == ValueType::kFloat32) {
    return static_cast<double>(load<float>(from));
  }
  if (type == ValueType::kFloat64) {
    return load<double>(from);
  }
  const Integer integer = integer_at(type, from);
  return integer.large ? static_cast<double>(load<std::uint64_t>(from))
                       : static_cast<double>(integer.value);
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What a message can show of a string that may hold anything.
std::string printable(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, kShownBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    shown += byte < 0x20 || byte >= 0x7F ? '?' : c;
  }
  return shown + (text.size() > kShownBytes ? "…" : "");
}

std::string scalar_text(const Value& value) {
  const std::byte* from = value.bytes.data();
  if (value.type == ValueType::kBool) {
    return load<std::uint8_t>(from) != 0 ? "true" : "false";
  }
  if (is_integer(value.type)) {
    const Integer integer = integer_at(value.type, from);
    return integer.large ? std::to_string(load<std::uint64_t>(from))
                         : std::to_string(integer.value);
  }
  return number_text(number_at(value.type, from));
}

Error wrong(std::string_view key, std::string_view expected, std::string_view found) {
  return invalid_argument("key \"" + printable(key) + "\": expected " + std::string(expected) +
                          ", found " + std::string(found));
}

Result<Value> find(const std::map<std::string_view, Value>& values, std::string_view key) {
  const auto found = values.find(key);
  if (found == values.end()) {
    return not_found("key \"" + printable(key) + "\": expected one, found none");
  }
  return found->second;
}

}  // namespace

std::string_view name_of(ValueType type) {
  constexpr std::array<std::string_view, 13> kNames = {"uint8",
                                                       "int8",
                                                       "uint16",
                                                       "int16",
                                                       "uint32",
                                                       "int32",
                                                       "float32",
                                                       "bool",
                                                       "string",
                                                       "array",
                                                       "uint64",
                                                       "int64",
                                                       "float64"};
  const auto number = static_cast<std::size_t>(type);
  return number < kNames.size() ? kNames[number] : "unknown";
}

std::string describe(const Value& value) {
  if (value.type == ValueType::kArray) {
    return "an array of " + std::to_string(value.count) + " " + std::string(name_of(value.element));
  }
  if (value.type == ValueType::kString) {
    return "the string \"" + printable(text_of(value.bytes)) + "\"";
  }
  return "the " + std::string(name_of(value.type)) + " " + scalar_text(value);
}

// %g and not to_string(): a float64 can have 309 digits before its point, or zeros behind it.
std::string number_text(double value) {
  constexpr std::size_t kMost = 32;
  char text[kMost];
  const int length = std::snprintf(text, kMost, "%.9g", value);
  return {text, static_cast<std::size_t>(length)};
}

bool Metadata::add(std::string_view key, const Value& value) {
  return values_.emplace(key, value).second;
}

Result<std::int64_t> Metadata::integer(std::string_view key,
                                       std::int64_t least,
                                       std::int64_t most) const {
  PHALANX_TRY(const Value value, find(values_, key));
  const std::string expected =
      "an integer from " + std::to_string(least) + " to " + std::to_string(most);
  if (!is_integer(value.type)) {
    return wrong(key, expected, describe(value));
  }
  const Integer integer = integer_at(value.type, value.bytes.data());
  if (integer.large || integer.value < least || integer.value > most) {
    return wrong(key, expected, describe(value));
  }
  return integer.value;
}

Result<std::optional<std::int64_t>> Metadata::token_id(std::string_view key,
                                                       std::int64_t most) const {
  constexpr std::int64_t kNone = std::numeric_limits<std::uint32_t>::max();
  const auto any = integer(key, -1, kNone);
  if (!has(key) || (any && (*any == -1 || *any == kNone))) {
    return std::optional<std::int64_t>();
  }
  PHALANX_TRY(const std::int64_t id, integer(key, 0, most));
  return std::optional(id);
}

Result<double> Metadata::number(std::string_view key) const {
  PHALANX_TRY(const Value value, find(values_, key));
  if (!is_number(value.type)) {
    return wrong(key, "a number", describe(value));
  }
  const double number = number_at(value.type, value.bytes.data());
  if (!std::isfinite(number)) {
    return wrong(key, "a finite number", describe(value));
  }
  return number;
}

Result<bool> Metadata::boolean(std::string_view key) const {
  PHALANX_TRY(const Value value, find(values_, key));
  if (value.type != ValueType::kBool) {
    return wrong(key, "a bool", describe(value));
  }
  return load<std::uint8_t>(value.bytes.data()) != 0;
}

Result<std::string_view> Metadata::text(std::string_view key) const {
  PHALANX_TRY(const Value value, find(values_, key));
  if (value.type != ValueType::kString) {
    return wrong(key, "a string", describe(value));
  }
  return text_of(value.bytes);
}

Result<Value> Metadata::array(std::string_view key, std::string_view expected) const {
  PHALANX_TRY(const Value value, find(values_, key));
  if (value.type != ValueType::kArray) {
    return wrong(key, expected, describe(value));
  }
  return value;
}

Result<std::vector<std::string_view>> Metadata::texts(std::string_view key) const {
  constexpr std::string_view kExpected = "an array of strings";
  PHALANX_TRY(const Value value, array(key, kExpected));
  if (value.element != ValueType::kString) {
    return wrong(key, kExpected, describe(value));
  }
  std::vector<std::string_view> texts;
  texts.reserve(static_cast<std::size_t>(value.count));
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < value.count; ++i) {
    const auto length = static_cast<std::size_t>(load<std::uint64_t>(value.bytes.data() + at));
    texts.push_back(text_of(value.bytes.subspan(at + sizeof(std::uint64_t), length)));
    at += sizeof(std::uint64_t) + length;
  }
  return texts;
}

Result<std::vector<float>> Metadata::floats(std::string_view key) const {
  constexpr std::string_view kExpected = "an array of float32";
  PHALANX_TRY(const Value value, array(key, kExpected));
  if (value.element != ValueType::kFloat32) {
    return wrong(key, kExpected, describe(value));
  }
  std::vector<float> floats(static_cast<std::size_t>(value.count));
  if (!floats.empty()) {
    std::memcpy(floats.data(), value.bytes.data(), value.bytes.size());
  }
  return floats;
}

Result<std::vector<std::int32_t>> Metadata::integers(std::string_view key) const {
  constexpr std::string_view kExpected = "an array of integers that fit into 32 bits";
  PHALANX_TRY(const Value value, array(key, kExpected));
  if (!is_integer(value.element)) {
    return wrong(key, kExpected, describe(value));
  }
  using Limits = std::numeric_limits<std::int32_t>;
  std::vector<std::int32_t> integers;
  integers.reserve(static_cast<std::size_t>(value.count));
  const std::size_t step = bytes_of(value.element);
  for (std::size_t at = 0; at < value.bytes.size(); at += step) {
    const Integer integer = integer_at(value.element, value.bytes.data() + at);
    if (integer.large || integer.value < Limits::min() || integer.value > Limits::max()) {
      return wrong(key, kExpected, "element " + std::to_string(at / step) + " outside");
    }
    integers.push_back(static_cast<std::int32_t>(integer.value));
  }
  return integers;
}

Result<std::uint64_t> Metadata::array_size(std::string_view key) const {
  PHALANX_TRY(const Value value, array(key, "an array"));
  return value.count;
}

}  // namespace phalanx::gguf
