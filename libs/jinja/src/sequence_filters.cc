// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "phalanx/base/utf8.h"

#include "builtins.h"
#include "interpreter.h"

namespace phalanx::jinja {
namespace {

Result<std::vector<Value>> input_elements(Interpreter& interpreter, const Value& value) {
  return interpreter.elements_of(value);
}

// map, select and their like take anything false for nothing to go through.
Result<std::vector<Value>> elements_if_true(Interpreter& interpreter, const Value& value) {
  return value.is_true() ? input_elements(interpreter, value) : std::vector<Value>();
}

Result<Value> length_filter(Interpreter& /*interpreter*/, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"value"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  PHALANX_TRY(const std::size_t count, length(value));
  return Value::integer(count);
}

Result<Value> list(Interpreter& interpreter, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"value"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  PHALANX_TRY(std::vector<Value> items, input_elements(interpreter, value));
  return Value::list(std::move(items));
}

template <bool kFirst>
Value end_of_items(const std::vector<Value>& items) {
  if (items.empty()) {
    return Value::undefined("the sequence was empty");
  }
  return kFirst ? items.front() : items.back();
}

template <bool kFirst>
Value end_of_text(const MarkedText& text) {
  std::size_t begin = kFirst ? 0 : text.size();
  std::size_t end = begin;
  static_cast<void>(kFirst ? next_code_point(text.view(), end)
                           : previous_code_point(text.view(), begin));
  return Value::text(text.slice(begin, end));
}

// Of what is long only the end is looked at: templates ask for it in loops.
template <bool kFirst>
Result<Value> end_of(Interpreter& interpreter, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"value"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  const Iterable* const iterable = value.as_iterable();
  if (iterable != nullptr && iterable->is_once) {
    if (!kFirst) {
      return invalid_argument("last: a generator cannot be read backwards");
    }
    return iterable->next < iterable->items.size() ? iterable->items[iterable->next++]
                                                   : Value::undefined("the sequence was empty");
  }
  if (iterable != nullptr) {
    return end_of_items<kFirst>(iterable->items);
  }
  if (const List* const list = value.as_list()) {
    return end_of_items<kFirst>(list->items);
  }
  if (const MarkedText* const text = value.as_text(); text != nullptr && !text->empty()) {
    return end_of_text<kFirst>(*text);
  }
  PHALANX_TRY(const std::vector<Value> items, input_elements(interpreter, value));
  return end_of_items<kFirst>(items);
}

Result<Value> join(Interpreter& interpreter, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters,
              Parameters::bind(arguments, {"value", "d", "attribute"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  PHALANX_TRY(const std::vector<Value> items, input_elements(interpreter, value));
  MarkedText separator;
  if (parameters.has(1)) {
    PHALANX_TRY(separator, to_text(*parameters.get(1)));
  }
  MarkedText joined;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Value item = items[i];
    if (parameters.has(2) && !parameters.get(2)->is_none()) {
      PHALANX_TRY(item, attribute_path(interpreter, item, *parameters.get(2)));
    }
    PHALANX_TRY(const MarkedText text, to_text(item));
    PHALANX_RETURN_IF_ERROR(interpreter.charge(text.size() + separator.size()));
    if (i > 0) {
      joined.append(separator);
    }
    joined.append(text);
  }
  return Value::text(std::move(joined));
}

// The arguments of a filter or test that another filter names, with `item` in front.
Arguments inner_arguments(const Arguments& arguments, std::size_t first, const Value& item) {
  Arguments inner;
  inner.positional.push_back(item);
  for (std::size_t i = first; i < arguments.positional.size(); ++i) {
    inner.positional.push_back(arguments.positional[i]);
  }
  inner.named = arguments.named;
  return inner;
}

// What applying a filter or test with these arguments to one item can go through, but for the item.
std::size_t arguments_bytes(const Arguments& arguments, std::size_t first) {
  std::size_t bytes = 0;
  for (std::size_t i = first; i < arguments.positional.size(); ++i) {
    bytes += arguments.positional[i].walk_bytes();
  }
  for (const auto& [name, value] : arguments.named) {
    bytes += name.size() + value.walk_bytes();
  }
  return bytes;
}

Result<Value> map_attribute(Interpreter& interpreter, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters,
              Parameters::bind(arguments, {"value", "attribute", "default"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  PHALANX_TRY(const Value path, parameters.required(1));
  PHALANX_TRY(std::vector<Value> items, elements_if_true(interpreter, value));
  for (Value& item : items) {
    PHALANX_RETURN_IF_ERROR(interpreter.check_time(path.walk_bytes()));
    PHALANX_TRY(item, attribute_path(interpreter, item, path));
    if (item.is_undefined() && parameters.has(2)) {
      item = *parameters.get(2);
    }
  }
  return Value::once(std::move(items));
}

Result<Value> map(Interpreter& interpreter, Arguments& arguments) {
  if (arguments.positional.size() == 1) {
    return map_attribute(interpreter, arguments);
  }
  const MarkedText* const name = arguments.positional[1].as_text();
  const Builtin* const filter = name == nullptr ? nullptr : find_filter(name->view());
  if (filter == nullptr) {
    return invalid_argument("map: expected the name of a filter");
  }
  PHALANX_TRY(std::vector<Value> items, elements_if_true(interpreter, arguments.positional[0]));
  const std::size_t bytes = arguments_bytes(arguments, 2);
  for (Value& item : items) {
    PHALANX_RETURN_IF_ERROR(interpreter.check_time(bytes + item.walk_bytes()));
    Arguments inner = inner_arguments(arguments, 2, item);
    PHALANX_TRY(item, filter->call(interpreter, inner));
  }
  return Value::once(std::move(items));
}

// select, reject (by the item) and selectattr, rejectattr (by an attribute of it): the items for
// which a test, or truth if none is named, gives `kKept`.
template <bool kByAttribute, bool kKept>
Result<Value> select(Interpreter& interpreter, Arguments& arguments) {
  constexpr std::size_t kTestPlace = kByAttribute ? 2 : 1;
  if (arguments.positional.size() < kTestPlace) {
    return invalid_argument("missing argument \"attribute\"");
  }
  const Builtin* test = nullptr;
  if (arguments.positional.size() > kTestPlace) {
    const MarkedText* const name = arguments.positional[kTestPlace].as_text();
    test = name == nullptr ? nullptr : find_test(name->view());
    if (test == nullptr) {
      return invalid_argument("expected the name of a test");
    }
  }
  PHALANX_TRY(std::vector<Value> items, elements_if_true(interpreter, arguments.positional[0]));
  std::vector<Value> kept;
  const std::size_t bytes = arguments_bytes(arguments, 1);
  for (Value& item : items) {
    PHALANX_RETURN_IF_ERROR(interpreter.check_time(bytes + item.walk_bytes()));
    Value subject = item;
    if constexpr (kByAttribute) {
      PHALANX_TRY(subject, attribute_path(interpreter, item, arguments.positional[1]));
    }
    if (test != nullptr) {
      Arguments inner = inner_arguments(arguments, kTestPlace + 1, subject);
      PHALANX_TRY(subject, test->call(interpreter, inner));
    }
    if (subject.is_true() == kKept) {
      kept.push_back(std::move(item));
    }
  }
  return Value::once(std::move(kept));
}

Result<Value> items(Interpreter& interpreter, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"value"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  if (value.is_undefined()) {
    return Value::once({});
  }
  const Dict* const dict = value.as_dict();
  if (dict == nullptr) {
    return invalid_argument("items: expected a dict, found " + std::string(value.type_name()));
  }
  PHALANX_RETURN_IF_ERROR(interpreter.charge(dict->entries().size() * sizeof(Value)));
  PHALANX_TRY(std::vector<Value> pairs, items_of(*dict));
  return Value::once(std::move(pairs));
}

Result<Value> reverse(Interpreter& interpreter, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"value"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  PHALANX_TRY(std::vector<Value> values, input_elements(interpreter, value));
  std::reverse(values.begin(), values.end());
  if (value.as_iterable() != nullptr && value.as_iterable()->is_once) {
    return Value::list(std::move(values));  // what cannot be read backwards is copied
  }
  if (value.as_text() == nullptr) {
    return Value::once(std::move(values));
  }
  MarkedText text;
  for (const Value& character : values) {
    text.append(*character.as_text());
  }
  return Value::text(std::move(text));
}

constexpr std::array<Builtin, 13> kSequenceFilters{{{"count", length_filter},
                                                    {"first", end_of<true>},
                                                    {"items", items},
                                                    {"join", join},
                                                    {"last", end_of<false>},
                                                    {"length", length_filter},
                                                    {"list", list},
                                                    {"map", map},
                                                    {"reject", select<false, false>},
                                                    {"rejectattr", select<true, false>},
                                                    {"reverse", reverse},
                                                    {"select", select<false, true>},
                                                    {"selectattr", select<true, true>}}};

}  // namespace

Result<std::vector<Value>> items_of(const Dict& dict) {
  std::vector<Value> pairs;
  for (const Dict::Entry& entry : dict.entries()) {
    PHALANX_TRY(Value pair, Value::list({Value(entry.key), entry.value}, /*is_tuple=*/true));
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

Result<Value> attribute_path(Interpreter& interpreter, const Value& value, const Value& path) {
  const MarkedText* const text = path.as_text();
  if (text == nullptr) {
    return interpreter.item(value, path);
  }
  Value current = value;
  std::string_view rest = text->view();
  while (true) {
    const std::string_view part = rest.substr(0, rest.find('.'));
    std::int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = parsed.ec == std::errc() && parsed.ptr == part.data() + part.size();
    PHALANX_TRY(
        current,
        interpreter.item(current, is_index ? Value(index) : Value::literal(std::string(part))));
    if (part.size() == rest.size()) {
      return current;
    }
    rest = rest.substr(part.size() + 1);
  }
}

std::span<const Builtin> sequence_filters() {
  return kSequenceFilters;
}

}  // namespace phalanx::jinja
