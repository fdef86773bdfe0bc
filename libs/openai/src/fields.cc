// SPDX-License-Identifier: Apache-2.0
#include "fields.h"

#include <cmath>

#include "phalanx/json/writer.h"
#include "phalanx/step/sampling_rules.h"

namespace phalanx::openai {
namespace {

constexpr std::size_t kMaxIgnoredFields = 32;
constexpr std::size_t kMaxIgnoredNameBytes = 64;

}  // namespace

ApiError wrong(const Field& field, std::string_view expected) {
  return invalid_field(
      field.name,
      field.name + ": expected " + std::string(expected) + ", came " + json::describe(field.value));
}

ApiError unsupported(const std::string& name, std::string_view reason) {
  ApiError error =
      invalid_field(name, name + ": not supported by this version: " + std::string(reason));
  error.code = "unsupported_value";
  return error;
}

Refusal read_bool(const Field& field, bool* out) {
  const bool* value = field.value.as_bool();
  if (value == nullptr) {
    return wrong(field, "true or false");
  }
  *out = *value;
  return std::nullopt;
}

Refusal read_text(const Field& field, std::string* out, std::size_t bytes_max) {
  const std::string* value = field.value.as_string();
  if (value == nullptr) {
    return wrong(field, "a string");
  }
  if (value->size() > bytes_max) {
    return wrong(field, "a string of at most " + std::to_string(bytes_max) + " bytes");
  }
  *out = *value;
  return std::nullopt;
}

Refusal read_real(const Field& field, const step::RealRule& rule, std::optional<float>* out) {
  double value = NAN;
  if (const auto* integer = field.value.as_int()) {
    value = static_cast<double>(*integer);
  } else if (const double* real = field.value.as_double()) {
    value = *real;
  }
  const float number = step::narrowed(value);
  if (!rule.allows(number)) {
    return wrong(field, step::range_of(rule));
  }
  *out = number;
  return std::nullopt;
}

std::optional<std::int64_t> integer_of(const json::Value& value) {
  if (const auto* integer = value.as_int()) {
    return *integer;
  }
  // What 64 bits hold begins at -2^63 and ends before 2^63. A number that is written as an integer
  // and beyond that may have its nearest real within.
  constexpr double kEnd = 9223372036854775808.0;
  const double* real = value.as_big_int() == nullptr ? value.as_double() : nullptr;
  if (real != nullptr && *real >= -kEnd && *real < kEnd && std::trunc(*real) == *real) {
    return static_cast<std::int64_t>(*real);
  }
  return std::nullopt;
}

bool is_empty(const json::Value& value) {
  const auto* text = value.as_string();
  const auto* array = value.as_array();
  const auto* object = value.as_object();
  return (text != nullptr && text->empty()) || (array != nullptr && array->empty()) ||
         (object != nullptr && object->empty());
}

Refusal read_int(const Field& field, IntRange range, std::int64_t* out) {
  const auto value = integer_of(field.value);
  if (!value || *value < range.low || *value > range.high) {
    return wrong(
        field,
        "an integer from " + std::to_string(range.low) + " to " + std::to_string(range.high));
  }
  *out = *value;
  return std::nullopt;
}

Refusal read_tokens(const Field& field,
                    TokenId vocab_size,
                    std::size_t count_max,
                    std::vector<TokenId>* out) {
  const auto* array = field.value.as_array();
  if (array == nullptr) {
    return wrong(field, "a list of token ids");
  }
  if (array->size() > count_max) {
    return invalid_field(field.name,
                         field.name + ": expected at most " + std::to_string(count_max) +
                             " token ids, came " + std::to_string(array->size()));
  }
  out->clear();
  out->reserve(array->size());
  for (const json::Value& element : *array) {
    const auto id = integer_of(element);
    if (!id || *id < 0 || *id >= vocab_size) {
      const Field at{field.name + "[" + std::to_string(out->size()) + "]", element};
      return wrong(at, "a token id from 0 to " + std::to_string(vocab_size - 1));
    }
    out->push_back(static_cast<TokenId>(*id));
  }
  return std::nullopt;
}

ApiResult<json::Value> parse_object(std::string_view json) {
  ApiError error;
  if (json.empty()) {
    error.message = "the request body: expected a JSON object, came nothing";
    error.code = "invalid_json";
    return error;
  }
  auto parsed = json::parse(json, {.values_max = kMaxRequestValues});
  if (!parsed) {
    error.message = "the request body: " + parsed.error().message();
    error.code = "invalid_json";
    return error;
  }
  if (parsed->as_object() == nullptr) {
    error.message = "the request body: expected a JSON object, came " + json::describe(*parsed);
    return error;
  }
  return std::move(parsed).value();
}

void note_ignored(const std::string& name, std::vector<std::string>* ignored) {
  if (ignored->size() < kMaxIgnoredFields) {
    ignored->push_back(name.substr(0, kMaxIgnoredNameBytes));
  }
}

}  // namespace phalanx::openai
