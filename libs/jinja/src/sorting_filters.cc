// SPDX-License-Identifier: Apache-2.0
// Filters that compare the elements of a sequence with each other.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "builtins.h"
#include "interpreter.h"

namespace phalanx::jinja {
namespace {

// Text as it counts in a comparison that ignores case.
Value ignoring_case(const Value& value) {
  const MarkedText* const text = value.as_text();
  return text == nullptr ? value : Value::text(change_case(*text, Case::kLower));
}

// Sorts by keys that were computed before, keeping the order of equals.
Result<Value> sorted(Interpreter& interpreter,
                     std::vector<std::pair<Value, Value>> keyed,
                     bool reverse) {
  std::optional<Error> fault;
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    if (fault.has_value()) {
      return false;
    }
    if (Status time = interpreter.check_time(a.first.walk_bytes()); !time) {
      fault = time.error();
      return false;
    }
    const Result<int> order = reverse ? compare(b.first, a.first) : compare(a.first, b.first);
    if (!order) {
      fault = order.error();
      return false;
    }
    return *order < 0;
  });
  if (fault.has_value()) {
    return *std::move(fault);
  }
  std::vector<Value> values;
  values.reserve(keyed.size());
  for (auto& [key, value] : keyed) {
    values.push_back(std::move(value));
  }
  return Value::list(std::move(values));
}

Result<Value> dictsort(Interpreter& interpreter, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters,
              Parameters::bind(arguments, {"value", "case_sensitive", "by", "reverse"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  PHALANX_TRY(const bool case_sensitive, parameters.boolean(1, false));
  PHALANX_TRY(const MarkedText by, parameters.text(2, "key"));
  PHALANX_TRY(const bool reverse, parameters.boolean(3, false));
  const Dict* const dict = value.as_dict();
  if (dict == nullptr || (by.text() != "key" && by.text() != "value")) {
    return invalid_argument("dictsort: expected a dict and \"key\" or \"value\"");
  }
  PHALANX_RETURN_IF_ERROR(interpreter.charge(dict->entries().size() * sizeof(Value)));
  std::vector<std::pair<Value, Value>> keyed;
  for (const Dict::Entry& entry : dict->entries()) {
    const Value key = by.text() == "key" ? Value(entry.key) : entry.value;
    PHALANX_TRY(Value pair, Value::list({Value(entry.key), entry.value}, /*is_tuple=*/true));
    keyed.emplace_back(case_sensitive ? key : ignoring_case(key), std::move(pair));
  }
  return sorted(interpreter, std::move(keyed), reverse);
}

// "a.b,c" names two attributes.
std::vector<Value> paths_of(const Value& attribute) {
  const MarkedText* const text = attribute.as_text();
  if (text == nullptr) {
    return {attribute};
  }
  std::vector<Value> paths;
  const std::string& all = text->text();
  for (std::size_t begin = 0; begin <= all.size();) {
    const std::size_t end = std::min(all.find(',', begin), all.size());
    paths.push_back(Value::literal(all.substr(begin, end - begin)));
    begin = end + 1;
  }
  return paths;
}

Result<Value> sort(Interpreter& interpreter, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters,
              Parameters::bind(arguments, {"value", "reverse", "case_sensitive", "attribute"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  PHALANX_TRY(const bool reverse, parameters.boolean(1, false));
  PHALANX_TRY(const bool case_sensitive, parameters.boolean(2, false));
  PHALANX_TRY(std::vector<Value> values, interpreter.elements_of(value));
  const bool by_attributes = parameters.has(3) && !parameters.get(3)->is_none();
  const std::vector<Value> paths =
      by_attributes ? paths_of(*parameters.get(3)) : std::vector<Value>();
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : values) {
    // Lists: so two that are equal are in order, also if their keys have none ("none").
    std::vector<Value> keys;
    for (const Value& path : paths) {
      PHALANX_TRY(const Value key, attribute_path(interpreter, item, path));
      keys.push_back(case_sensitive ? key : ignoring_case(key));
    }
    if (!by_attributes) {
      keys.push_back(case_sensitive ? item : ignoring_case(item));
    }
    PHALANX_TRY(Value wrapped, Value::list(std::move(keys)));
    keyed.emplace_back(std::move(wrapped), std::move(item));
  }
  return sorted(interpreter, std::move(keyed), reverse);
}

template <bool kMax>
Result<Value> extreme(Interpreter& interpreter, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters,
              Parameters::bind(arguments, {"value", "case_sensitive", "attribute"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  PHALANX_TRY(const bool case_sensitive, parameters.boolean(1, false));
  PHALANX_TRY(std::vector<Value> values, interpreter.elements_of(value));
  std::optional<std::pair<Value, Value>> best;
  for (Value& item : values) {
    Value key = item;
    if (parameters.has(2) && !parameters.get(2)->is_none()) {
      PHALANX_TRY(key, attribute_path(interpreter, item, *parameters.get(2)));
    }
    key = case_sensitive ? key : ignoring_case(key);
    int order = 1;
    if (best.has_value()) {
      PHALANX_TRY(order, kMax ? compare(key, best->first) : compare(best->first, key));
    }
    if (order > 0) {
      best.emplace(std::move(key), std::move(item));
    }
  }
  return best.has_value() ? std::move(best->second) : Value::undefined("the sequence was empty");
}

Result<Value> unique(Interpreter& interpreter, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters,
              Parameters::bind(arguments, {"value", "case_sensitive", "attribute"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  PHALANX_TRY(const bool case_sensitive, parameters.boolean(1, false));
  PHALANX_TRY(std::vector<Value> values, interpreter.elements_of(value));
  std::vector<Value> seen;
  std::size_t seen_bytes = 0;
  std::vector<Value> kept;
  for (Value& item : values) {
    Value key = item;
    if (parameters.has(2) && !parameters.get(2)->is_none()) {
      PHALANX_TRY(key, attribute_path(interpreter, item, *parameters.get(2)));
    }
    key = case_sensitive ? key : ignoring_case(key);
    if (!is_hashable(key)) {
      return invalid_argument("unique: " + std::string(key.type_name()) + " cannot be a key");
    }
    PHALANX_RETURN_IF_ERROR(interpreter.charge(seen.size()));
    PHALANX_RETURN_IF_ERROR(interpreter.check_time(seen_bytes));
    if (std::none_of(seen.begin(), seen.end(), [&](const Value& s) { return equal(s, key); })) {
      seen_bytes += key.walk_bytes();
      seen.push_back(std::move(key));
      kept.push_back(std::move(item));
    }
  }
  return Value::once(std::move(kept));
}

constexpr std::array<Builtin, 5> kSortingFilters{{{"dictsort", dictsort},
                                                  {"max", extreme<true>},
                                                  {"min", extreme<false>},
                                                  {"sort", sort},
                                                  {"unique", unique}}};

}  // namespace

std::span<const Builtin> sorting_filters() {
  return kSortingFilters;
}

}  // namespace phalanx::jinja
