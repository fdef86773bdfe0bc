// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <ctime>
#include <string>
#include <utility>

#include "phalanx/base/utf8.h"

#include "builtins.h"
#include "interpreter.h"
#include "operations.h"

namespace phalanx::jinja {
namespace {

// A test that looks at the value alone.
template <bool (*kHolds)(const Value&)>
Result<Value> unary_test(Interpreter& /*interpreter*/, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"value"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  return Value(kHolds(value));
}

// A test that is an operator with a name.
template <Operator kOperator>
Result<Value> operator_test(Interpreter& /*interpreter*/, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"value", "other"}));
  PHALANX_TRY(const Value left, parameters.required(0));
  PHALANX_TRY(const Value right, parameters.required(1));
  PHALANX_TRY(const bool holds, apply_comparison(kOperator, left, right));
  return Value(holds);
}

bool is_defined(const Value& value) {
  return !value.is_undefined();
}
bool is_undefined(const Value& value) {
  return value.is_undefined();
}
bool is_none(const Value& value) {
  return value.is_none();
}
bool is_boolean(const Value& value) {
  return value.is<bool>();
}
bool is_true(const Value& value) {
  return value.is<bool>() && value.is_true();
}
bool is_false(const Value& value) {
  return value.is<bool>() && !value.is_true();
}
bool is_integer(const Value& value) {
  return value.is<std::int64_t>() || value.is<Value::BigInteger>();
}
bool is_float(const Value& value) {
  return value.is<double>();
}
bool is_number(const Value& value) {
  return value.as_number().has_value() || value.is<Value::BigInteger>();
}
bool is_string(const Value& value) {
  return value.as_text() != nullptr;
}
bool is_mapping(const Value& value) {
  return value.as_dict() != nullptr;
}
bool is_iterable(const Value& value) {
  return value.as_text() != nullptr || value.as_list() != nullptr || value.as_dict() != nullptr ||
         value.as_iterable() != nullptr || value.is_undefined();
}
// Has a length and elements, as text and dicts do.
bool is_sized_sequence(const Value& value) {
  return is_iterable(value) && (value.as_iterable() == nullptr || value.as_iterable()->is_range());
}
// Jinja's undefined values have a call, which fails.
bool is_callable(const Value& value) {
  return value.is_undefined() || value.is<Macro>() || value.is<Value::MethodPtr>() ||
         value.is<const Builtin*>();
}
bool is_lower(const Value& value) {
  const MarkedText* const text = value.as_text();
  return text != nullptr && change_case(*text, Case::kLower).text() == text->text() &&
         change_case(*text, Case::kUpper).text() != text->text();
}
bool is_upper(const Value& value) {
  const MarkedText* const text = value.as_text();
  return text != nullptr && change_case(*text, Case::kUpper).text() == text->text() &&
         change_case(*text, Case::kLower).text() != text->text();
}

// Whether value % divisor is `kRemainder` (for odd and even the divisor is two).
template <std::int64_t kRemainder>
Result<Value> parity_test(Interpreter& /*interpreter*/, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"value"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  const auto integer = value.as_integer();
  if (!integer.has_value()) {
    return invalid_argument("expected an integer, found " + std::string(value.type_name()));
  }
  return Value((*integer % 2 != 0) == (kRemainder == 1));
}

Result<Value> divisible_test(Interpreter& /*interpreter*/, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"value", "num"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  PHALANX_TRY(const std::int64_t divisor, parameters.integer(1, 0));
  const auto integer = value.as_integer();
  if (!integer.has_value() || divisor == 0) {
    return invalid_argument("divisibleby: expected an integer and a divisor that is not zero");
  }
  return Value(divisor == -1 || *integer % divisor == 0);
}

constexpr std::array<Builtin, 33> kTests{{{"!=", operator_test<Operator::kNotEqual>},
                                          {"<", operator_test<Operator::kLess>},
                                          {"<=", operator_test<Operator::kLessEqual>},
                                          {"==", operator_test<Operator::kEqual>},
                                          {">", operator_test<Operator::kGreater>},
                                          {">=", operator_test<Operator::kGreaterEqual>},
                                          {"boolean", unary_test<is_boolean>},
                                          {"callable", unary_test<is_callable>},
                                          {"defined", unary_test<is_defined>},
                                          {"divisibleby", divisible_test},
                                          {"eq", operator_test<Operator::kEqual>},
                                          {"equalto", operator_test<Operator::kEqual>},
                                          {"even", parity_test<0>},
                                          {"false", unary_test<is_false>},
                                          {"float", unary_test<is_float>},
                                          {"ge", operator_test<Operator::kGreaterEqual>},
                                          {"gt", operator_test<Operator::kGreater>},
                                          {"in", operator_test<Operator::kIn>},
                                          {"integer", unary_test<is_integer>},
                                          {"iterable", unary_test<is_iterable>},
                                          {"le", operator_test<Operator::kLessEqual>},
                                          {"lower", unary_test<is_lower>},
                                          {"lt", operator_test<Operator::kLess>},
                                          {"mapping", unary_test<is_mapping>},
                                          {"ne", operator_test<Operator::kNotEqual>},
                                          {"none", unary_test<is_none>},
                                          {"number", unary_test<is_number>},
                                          {"odd", parity_test<1>},
                                          {"sequence", unary_test<is_sized_sequence>},
                                          {"string", unary_test<is_string>},
                                          {"true", unary_test<is_true>},
                                          {"undefined", unary_test<is_undefined>},
                                          {"upper", unary_test<is_upper>}}};

Result<Value> namespace_function(Interpreter& /*interpreter*/, Arguments& arguments) {
  auto space = std::make_shared<Namespace>();
  for (const Value& value : arguments.positional) {
    const Dict* const dict = value.as_dict();
    if (dict == nullptr) {
      return invalid_argument("namespace: expected a dict, found " +
                              std::string(value.type_name()));
    }
    for (const Dict::Entry& entry : dict->entries()) {
      space->set(entry.key->view(), entry.value);
    }
  }
  for (auto& [name, value] : arguments.named) {
    if (!value.is_storable()) {
      return invalid_argument(std::string(value.type_name()) + " cannot be put into a namespace");
    }
    space->set(name, std::move(value));
  }
  return Value(std::move(space));
}

Result<Value> dict_function(Interpreter& /*interpreter*/, Arguments& arguments) {
  Dict dict;
  for (const Value& value : arguments.positional) {
    const Dict* const source = value.as_dict();
    if (source == nullptr) {
      return invalid_argument("dict: expected a dict, found " + std::string(value.type_name()));
    }
    for (const Dict::Entry& entry : source->entries()) {
      dict.set(entry.key, entry.value);
    }
  }
  for (auto& [name, value] : arguments.named) {
    dict.set(std::make_shared<const MarkedText>(MarkedText::literal(name)), std::move(value));
  }
  return Value::dict(std::move(dict));
}

Result<Value> range_function(Interpreter& interpreter, Arguments& arguments) {
  const bool only_stop = arguments.positional.size() == 1;
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"start", "stop", "step"}));
  PHALANX_TRY(const Value first, parameters.required(0));
  PHALANX_TRY(const std::int64_t first_integer, parameters.integer(0, 0));
  PHALANX_TRY(const std::int64_t stop, parameters.integer(1, first_integer));
  PHALANX_TRY(const std::int64_t step, parameters.integer(2, 1));
  const std::int64_t start = only_stop ? 0 : first_integer;
  if (step == 0) {
    return invalid_argument("range: expected a step that is not zero");
  }
  std::vector<Value> values;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop;) {
    PHALANX_RETURN_IF_ERROR(interpreter.charge(sizeof(Value)));
    values.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) {
      break;
    }
  }
  return Value::range(start, stop, step, std::move(values));
}

// What a template says of a request becomes an answer, which a small request must not make large.
std::string cut(std::string message) {
  constexpr std::size_t kMaxBytes = 4096;
  if (message.size() > kMaxBytes) {
    std::size_t end = kMaxBytes + 1;
    static_cast<void>(previous_code_point(message, end));
    message.resize(end);
    message += "…";
  }
  return message;
}

Result<Value> raise_exception(Interpreter& interpreter, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"message"}));
  PHALANX_TRY(const Value message, parameters.required(0));
  PHALANX_TRY(const MarkedText text, to_text(message));
  return interpreter.raise(cut(text.text()));
}

Result<Value> strftime_now(Interpreter& interpreter, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"format"}));
  PHALANX_TRY(const MarkedText format, parameters.text(0, ""));
  if (format.empty()) {
    return Value::literal("");
  }
  const std::time_t seconds = std::chrono::system_clock::to_time_t(interpreter.now());
  std::tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 512> buffer{};
  const std::size_t count =
      std::strftime(buffer.data(), buffer.size(), format.text().c_str(), &local);
  if (count == 0) {
    return invalid_argument("strftime_now: expected a result of 1 to " +
                            std::to_string(buffer.size()) + " bytes");
  }
  return Value::text(MarkedText::like(format, std::string(buffer.data(), count)));
}

constexpr std::array<Builtin, 5> kFunctions{{{"dict", dict_function},
                                             {"namespace", namespace_function},
                                             {"raise_exception", raise_exception},
                                             {"range", range_function},
                                             {"strftime_now", strftime_now}}};

const Builtin* find(std::span<const Builtin> table, std::string_view name) {
  for (const Builtin& builtin : table) {
    if (builtin.name == name) {
      return &builtin;
    }
  }
  return nullptr;
}

}  // namespace

const Builtin* find_filter(std::string_view name) {
  for (const auto table :
       {text_filters(), sequence_filters(), sorting_filters(), number_filters()}) {
    if (const Builtin* filter = find(table, name)) {
      return filter;
    }
  }
  return nullptr;
}

const Builtin* find_test(std::string_view name) {
  return find(kTests, name);
}

const Builtin* find_function(std::string_view name) {
  return find(kFunctions, name);
}

}  // namespace phalanx::jinja
