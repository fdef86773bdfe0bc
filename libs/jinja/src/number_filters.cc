// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "builtins.h"
#include "interpreter.h"

namespace phalanx::jinja {
namespace {

// The text of a number as Python's int() and float() take it: space around it, a sign.
std::string number_text(const MarkedText& text) {
  const MarkedText stripped = strip(text, nullptr, Side::kBoth);
  std::string_view digits = stripped.view();
  if (digits.starts_with('+') && !digits.starts_with("+-")) {
    digits.remove_prefix(1);
  }
  return std::string(digits);
}

std::optional<double> float_of(const Value& value) {
  if (const auto* big = value.get<Value::BigInteger>()) {
    return big->nearest();
  }
  const MarkedText* const text = value.as_text();
  if (text == nullptr) {
    return value.as_number();
  }
  const std::string digits = number_text(*text);
  double number = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) {
    return std::nullopt;
  }
  return number;
}

// Of digits with or without a minus in front.
std::optional<Value> integer_of(std::string digits) {
  std::int64_t number = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (parsed.ptr != digits.data() + digits.size()) {
    return std::nullopt;
  }
  if (parsed.ec == std::errc()) {
    return Value(number);
  }
  if (parsed.ec != std::errc::result_out_of_range) {
    return std::nullopt;
  }
  double nearest = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), nearest).ec != std::errc()) {
    return std::nullopt;
  }
  const std::size_t sign = digits.starts_with('-') ? 1 : 0;
  digits.erase(sign, digits.find_first_not_of('0', sign) - sign);
  return Value(Value::BigInteger{std::make_shared<const std::string>(std::move(digits))});
}

std::optional<Value> integer_of(double real) {
  constexpr double kBound = 0x1p63;
  if (real >= -kBound && real < kBound) {
    return Value(static_cast<std::int64_t>(real));
  }
  std::array<char, std::numeric_limits<double>::max_exponent10 + 8> digits{};
  const auto written = std::to_chars(
      digits.data(), digits.data() + digits.size(), real, std::chars_format::fixed, 0);
  return std::isfinite(real) ? integer_of(std::string(digits.data(), written.ptr)) : std::nullopt;
}

std::optional<Value> integer_of(const Value& value) {
  if (const auto integer = value.as_integer()) {
    return Value(*integer);
  }
  if (value.is<Value::BigInteger>()) {
    return value;
  }
  if (const MarkedText* text = value.as_text()) {
    if (auto integer = integer_of(number_text(*text))) {
      return integer;
    }
  }
  const std::optional<double> real = float_of(value);
  return real ? integer_of(*real) : std::nullopt;
}

Result<Value> int_filter(Interpreter& /*interpreter*/, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"value", "default"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  if (const auto* undefined = value.get<Value::Undefined>()) {
    return invalid_argument(*undefined->reason);
  }
  if (const auto integer = integer_of(value)) {
    return *integer;
  }
  return parameters.has(1) ? *parameters.get(1) : Value(std::int64_t{0});
}

Result<Value> float_filter(Interpreter& /*interpreter*/, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"value", "default"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  if (const auto* undefined = value.get<Value::Undefined>()) {
    return invalid_argument(*undefined->reason);
  }
  if (const auto real = float_of(value)) {
    return Value(*real);
  }
  return parameters.has(1) ? *parameters.get(1) : Value(0.0);
}

Result<Value> abs_filter(Interpreter& /*interpreter*/, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"x"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  if (const auto* real = value.get<double>()) {
    return Value(std::fabs(*real));
  }
  if (const auto* big = value.get<Value::BigInteger>()) {
    const bool negative = big->digits->starts_with('-');
    return negative ? Value(Value::BigInteger{
                          std::make_shared<const std::string>(big->digits->substr(1))})
                    : value;
  }
  const auto integer = value.as_integer();
  if (!integer.has_value()) {
    return invalid_argument("abs: expected a number, found " + std::string(value.type_name()));
  }
  if (*integer == std::numeric_limits<std::int64_t>::min()) {
    return Value(Value::BigInteger{std::make_shared<const std::string>("9223372036854775808")});
  }
  return Value(*integer < 0 ? -*integer : *integer);
}

Result<Value> default_filter(Interpreter& /*interpreter*/, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters,
              Parameters::bind(arguments, {"value", "default_value", "boolean"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  PHALANX_TRY(const bool by_truth, parameters.boolean(2, false));
  const bool keeps = by_truth ? value.is_true() : !value.is_undefined();
  if (keeps) {
    return value;
  }
  return parameters.has(1) ? *parameters.get(1) : Value::literal("");
}

constexpr std::array<Builtin, 5> kNumberFilters{{{"abs", abs_filter},
                                                 {"d", default_filter},
                                                 {"default", default_filter},
                                                 {"float", float_filter},
                                                 {"int", int_filter}}};

}  // namespace

std::span<const Builtin> number_filters() {
  return kNumberFilters;
}

}  // namespace phalanx::jinja
