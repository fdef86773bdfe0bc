// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "phalanx/base/result.h"

namespace phalanx::openai {

struct JsonMember;

// A JSON value with the order of its keys kept, as templates show it. Integers that fit stay
// integers.
struct JsonValue {
  using Array = std::vector<JsonValue>;
  using Object = std::vector<JsonMember>;

  using Data = std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object>;

  // Out of line, where a member of an object is a complete type.
  JsonValue();
  JsonValue(Data its_data);  // NOLINT(google-explicit-constructor): a value is what it holds
  JsonValue(const JsonValue&);
  JsonValue(JsonValue&&) noexcept;
  JsonValue& operator=(const JsonValue&);
  JsonValue& operator=(JsonValue&&) noexcept;
  ~JsonValue();

  Data data;

  [[nodiscard]] bool is_null() const { return data.index() == 0; }
  [[nodiscard]] const bool* as_bool() const { return std::get_if<bool>(&data); }
  [[nodiscard]] const std::int64_t* as_int() const { return std::get_if<std::int64_t>(&data); }
  [[nodiscard]] const double* as_double() const { return std::get_if<double>(&data); }
  [[nodiscard]] const std::string* as_string() const { return std::get_if<std::string>(&data); }
  [[nodiscard]] const Array* as_array() const { return std::get_if<Array>(&data); }
  [[nodiscard]] const Object* as_object() const { return std::get_if<Object>(&data); }

  // The member of an object, or null. Linear: for objects with few keys.
  [[nodiscard]] const JsonValue* find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

inline constexpr std::size_t kJsonDepthMax = 64;

// Parses one JSON text.
//
// Errors: kInvalidArgument  not JSON (with the position), invalid UTF-8, more than `depth_max`
//                           levels, or a key twice in one object
[[nodiscard]] Result<JsonValue> parse_json(std::string_view text,
                                           std::size_t depth_max = kJsonDepthMax);

// The value as messages show it: a number or short string itself, else what it is ("an array").
[[nodiscard]] std::string describe(const JsonValue& value);

}  // namespace phalanx::openai
