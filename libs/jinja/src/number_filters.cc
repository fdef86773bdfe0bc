// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "builtins.h"
#include "interpreter.h"

namespace phalanx::jinja {
namespace {

// A number as Python's int() and float() read it: space around it, a sign.
template <typename Number>
std::optional<Number> read_number(const MarkedText& text) {
  const MarkedText stripped = strip(text, nullptr, Side::kBoth);
  std::string_view digits = stripped.view();
  if (digits.starts_with('+') && !digits.starts_with("+-")) {
    digits.remove_prefix(1);
  }
  Number number{};
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) {
    return std::nullopt;
  }
  return number;
}

std::optional<double> float_of(const Value& value) {
  if (const MarkedText* text = value.as_text()) {
    return read_number<double>(*text);
  }
  return value.as_number();
}

std::optional<std::int64_t> integer_of(const Value& value) {
  if (const auto integer = value.as_integer()) {
    return integer;
  }
  if (const MarkedText* text = value.as_text()) {
    if (const auto integer = read_number<std::int64_t>(*text)) {
      return integer;
    }
  }
  const std::optional<double> real = float_of(value);
  constexpr double kBound = 9.2e18;  // within 64 bits
  if (!real.has_value() || !std::isfinite(*real) || std::fabs(*real) > kBound) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*real);
}

Result<Value> int_filter(Interpreter& /*interpreter*/, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"value", "default"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  if (const auto* undefined = value.get<Value::Undefined>()) {
    return invalid_argument(*undefined->reason);
  }
  if (value.is<Value::BigInteger>()) {
    return value;
  }
  if (const auto integer = integer_of(value)) {
    return Value(*integer);
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
  const auto integer = value.as_integer();
  if (!integer.has_value() || *integer == std::numeric_limits<std::int64_t>::min()) {
    return invalid_argument("abs: expected a number, found " + std::string(value.type_name()));
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
