// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "phalanx/base/result.h"

namespace phalanx::json {

struct Member;

// An integer that 64 bits do not hold: the nearest number, and the text that it is written as.
struct BigInteger {
  double nearest = 0.0;
  std::shared_ptr<const std::string> digits;
};

// A JSON value with the order of its keys kept, as templates show it. Integers stay integers.
struct Value {
  using Array = std::vector<Value>;
  using Object = std::vector<Member>;

  using Data = std::
      variant<std::monostate, bool, std::int64_t, double, BigInteger, std::string, Array, Object>;

  // Out of line, where a member of an object is a complete type.
  Value();
  Value(Data its_data);  // NOLINT(google-explicit-constructor): a value is what it holds
  Value(const Value&);
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;
  ~Value();

  Data data;

  [[nodiscard]] bool is_null() const { return data.index() == 0; }
  [[nodiscard]] const bool* as_bool() const { return std::get_if<bool>(&data); }
  [[nodiscard]] const std::int64_t* as_int() const { return std::get_if<std::int64_t>(&data); }
  // Of a big integer the nearest one.
  [[nodiscard]] const double* as_double() const {
    const auto* const big = as_big_int();
    return big == nullptr ? std::get_if<double>(&data) : &big->nearest;
  }
  [[nodiscard]] const BigInteger* as_big_int() const { return std::get_if<BigInteger>(&data); }
  [[nodiscard]] const std::string* as_string() const { return std::get_if<std::string>(&data); }
  [[nodiscard]] const Array* as_array() const { return std::get_if<Array>(&data); }
  [[nodiscard]] const Object* as_object() const { return std::get_if<Object>(&data); }

  // The member of an object, or null. Linear: for objects with few keys.
  [[nodiscard]] const Value* find(std::string_view key) const;
};

struct Member {
  std::string key;
  Value value;
};

// What one text may hold. Past any of them it is refused with the bound in the message.
struct Limits {
  std::size_t depth_max = 64;                     // arrays and objects inside each other
  std::size_t values_max = std::size_t{1} << 24;  // of all kinds, at some 50 bytes each
  std::size_t bytes_max = std::size_t{1} << 30;   // of the text
};

// Parses one JSON text.
//
// Errors: kInvalidArgument  not JSON (with the position), invalid UTF-8, past a limit, or a key
//                           twice in one object
[[nodiscard]] Result<Value> parse(std::string_view text, const Limits& limits = {});

// The value as messages show it: a short number or string itself, else what it is ("an array").
[[nodiscard]] std::string describe(const Value& value);

}  // namespace phalanx::json
