// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "phalanx/base/find_text.h"
#include "phalanx/base/utf8.h"

#include "builtins.h"
#include "interpreter.h"

namespace phalanx::jinja {
namespace {

using Call = Result<Value> (*)(Interpreter& interpreter, const Value& object, Arguments& arguments);

struct MethodEntry {
  std::string_view name;
  Call call;
};

// The text itself, or any of a tuple of texts.
template <bool (*kMatches)(std::string_view, std::string_view)>
Result<Value> affix_test(Interpreter& /*interpreter*/, const Value& object, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"affix"}));
  PHALANX_TRY(const Value affix, parameters.required(0));
  const std::string_view text = object.as_text()->view();
  std::vector<Value> candidates{affix};
  if (const List* several = affix.as_list(); several != nullptr && several->is_tuple) {
    candidates = several->items;
  }
  for (const Value& candidate : candidates) {
    if (candidate.as_text() == nullptr) {
      return invalid_argument("expected a string or a tuple of strings, found " +
                              std::string(candidate.type_name()));
    }
    if (kMatches(text, candidate.as_text()->view())) {
      return Value(true);
    }
  }
  return Value(false);
}

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix);
}
bool ends_with(std::string_view text, std::string_view suffix) {
  return text.ends_with(suffix);
}

template <Side kSide>
Result<Value> strip_method(Interpreter& interpreter, const Value& object, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"chars"}));
  const MarkedText& text = *object.as_text();
  PHALANX_RETURN_IF_ERROR(interpreter.charge(text.size()));
  if (!parameters.has(0) || parameters.get(0)->is_none()) {
    return Value::text(strip(text, nullptr, kSide));
  }
  PHALANX_TRY(const MarkedText characters, parameters.text(0, ""));
  PHALANX_RETURN_IF_ERROR(interpreter.charge(characters.size()));
  return Value::text(strip(text, &characters, kSide));
}

template <Case kCase>
Result<Value> case_method(Interpreter& interpreter, const Value& object, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {}));
  static_cast<void>(parameters);
  PHALANX_RETURN_IF_ERROR(interpreter.charge(object.as_text()->size()));
  return Value::text(change_case(*object.as_text(), kCase));
}

Result<Value> replace_method(Interpreter& interpreter, const Value& object, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"old", "new", "count"}));
  PHALANX_TRY(const Value old, parameters.required(0));
  PHALANX_TRY(const Value replacement, parameters.required(1));
  PHALANX_TRY(const MarkedText from, parameters.text(0, ""));
  PHALANX_TRY(const MarkedText to, parameters.text(1, ""));
  PHALANX_TRY(const std::int64_t count, parameters.integer(2, -1));
  PHALANX_RETURN_IF_ERROR(charge_replacement(interpreter, *object.as_text(), from, to));
  return Value::text(replace_all(*object.as_text(), from.view(), to, count));
}

// Parts of a text, each charged before it is made: many short ones take many times its size.
class Parts {
 public:
  Parts(Interpreter& interpreter, const MarkedText& text)
      : interpreter_(interpreter), text_(text) {}

  [[nodiscard]] Status add(std::size_t begin, std::size_t end) {
    PHALANX_RETURN_IF_ERROR(interpreter_.charge(sizeof(Value) + kTextBytes));
    parts_.push_back(Value::text(text_.slice(begin, end)));
    return ok();
  }

  [[nodiscard]] std::vector<Value> take() { return std::move(parts_); }
  [[nodiscard]] std::vector<Value> take_turned() {
    std::reverse(parts_.begin(), parts_.end());
    return take();
  }

 private:
  Interpreter& interpreter_;
  const MarkedText& text_;
  std::vector<Value> parts_;
};

// Words between runs of white space; past `count` cuts the rest stays whole.
Result<std::vector<Value>> split_at_space(Interpreter& interpreter,
                                          const MarkedText& text,
                                          std::int64_t count) {
  Parts parts(interpreter, text);
  const std::string_view view = text.view();
  // The end of the run of characters from `begin` on that are space, or that are none.
  const auto end_of_run = [&](std::size_t begin, bool of_space) {
    for (std::size_t next = begin; begin < view.size(); begin = next) {
      if (is_strip_space(next_code_point(view, next)) != of_space) {
        break;
      }
    }
    return begin;
  };
  for (std::size_t begin = end_of_run(0, true); begin < view.size();) {
    const std::size_t end = count == 0 ? view.size() : end_of_run(begin, false);
    PHALANX_RETURN_IF_ERROR(parts.add(begin, end));
    begin = end_of_run(end, true);
    --count;
  }
  return parts.take();
}

Result<std::vector<Value>> split_at(Interpreter& interpreter,
                                    const MarkedText& text,
                                    std::string_view separator,
                                    std::int64_t count) {
  Parts parts(interpreter, text);
  std::size_t begin = 0;
  while (count != 0) {
    const std::size_t found = find_text(text.view(), separator, begin);
    if (found == std::string_view::npos) {
      break;
    }
    PHALANX_RETURN_IF_ERROR(parts.add(begin, found));
    begin = found + separator.size();
    --count;
  }
  PHALANX_RETURN_IF_ERROR(parts.add(begin, text.size()));
  return parts.take();
}

// What is found from the left in both texts turned round is found from the right.
Result<std::vector<Value>> split_at_from_right(Interpreter& interpreter,
                                               const MarkedText& text,
                                               std::string_view separator,
                                               std::int64_t count) {
  const std::string turned(text.view().rbegin(), text.view().rend());
  const std::string turned_separator(separator.rbegin(), separator.rend());
  Parts parts(interpreter, text);
  std::size_t end = text.size();
  while (count != 0) {
    const std::size_t found = find_text(turned, turned_separator, text.size() - end);
    if (found == std::string_view::npos) {
      break;
    }
    const std::size_t behind = text.size() - found;
    PHALANX_RETURN_IF_ERROR(parts.add(behind, end));
    end = behind - separator.size();
    --count;
  }
  PHALANX_RETURN_IF_ERROR(parts.add(0, end));
  return parts.take_turned();
}

template <bool kFromRight>
Result<Value> split_method(Interpreter& interpreter, const Value& object, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"sep", "maxsplit"}));
  const MarkedText& text = *object.as_text();
  PHALANX_TRY(const std::int64_t count, parameters.integer(1, -1));
  PHALANX_RETURN_IF_ERROR(interpreter.charge(text.size()));
  std::vector<Value> parts;
  if (!parameters.has(0) || parameters.get(0)->is_none()) {
    if (kFromRight && count >= 0) {
      return invalid_argument("rsplit: expected a separator with maxsplit");
    }
    PHALANX_TRY(parts, split_at_space(interpreter, text, count));
  } else {
    PHALANX_TRY(const MarkedText separator, parameters.text(0, ""));
    if (separator.empty()) {
      return invalid_argument("split: expected a separator that is not empty");
    }
    PHALANX_TRY(parts,
                kFromRight ? split_at_from_right(interpreter, text, separator.view(), count)
                           : split_at(interpreter, text, separator.view(), count));
  }
  return Value::list(std::move(parts));
}

Result<Value> splitlines_method(Interpreter& interpreter,
                                const Value& object,
                                Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {}));
  static_cast<void>(parameters);
  const MarkedText& text = *object.as_text();
  PHALANX_RETURN_IF_ERROR(interpreter.charge(text.size()));
  PHALANX_TRY(std::vector<MarkedText> texts, lines_of(interpreter, text));
  PHALANX_RETURN_IF_ERROR(interpreter.charge(texts.size() * sizeof(Value)));
  std::vector<Value> lines;
  for (MarkedText& line : texts) {
    lines.push_back(Value::text(std::move(line)));
  }
  return Value::list(std::move(lines));
}

Result<Value> find_method(Interpreter& /*interpreter*/, const Value& object, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"sub"}));
  PHALANX_TRY(const Value sub, parameters.required(0));
  PHALANX_TRY(const MarkedText part, parameters.text(0, ""));
  const std::string_view text = object.as_text()->view();
  const std::size_t found = find_text(text, part.view());
  return found == std::string_view::npos ? Value(std::int64_t{-1})
                                         : Value::integer(count_code_points(text.substr(0, found)));
}

Result<Value> join_method(Interpreter& interpreter, const Value& object, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"iterable"}));
  PHALANX_TRY(const Value iterable, parameters.required(0));
  PHALANX_TRY(const std::vector<Value> items, interpreter.elements_of(iterable));
  MarkedText joined;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const MarkedText* const text = items[i].as_text();
    if (text == nullptr) {
      return invalid_argument("join: expected strings, found " + std::string(items[i].type_name()));
    }
    PHALANX_RETURN_IF_ERROR(interpreter.charge(text->size() + object.as_text()->size()));
    if (i > 0) {
      joined.append(*object.as_text());
    }
    joined.append(*text);
  }
  return Value::text(std::move(joined));
}

template <bool kPrefix>
Result<Value> remove_affix(Interpreter& interpreter, const Value& object, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"affix"}));
  PHALANX_TRY(const Value required, parameters.required(0));
  PHALANX_TRY(const MarkedText affix, parameters.text(0, ""));
  const MarkedText& text = *object.as_text();
  PHALANX_RETURN_IF_ERROR(interpreter.charge(text.size()));
  if (kPrefix && text.view().starts_with(affix.view())) {
    return Value::text(text.slice(affix.size(), text.size()));
  }
  if (!kPrefix && text.view().ends_with(affix.view())) {
    return Value::text(text.slice(0, text.size() - affix.size()));
  }
  return object;
}

constexpr std::array<MethodEntry, 17> kTextMethods{{{"capitalize", case_method<Case::kCapitalize>},
                                                    {"endswith", affix_test<ends_with>},
                                                    {"find", find_method},
                                                    {"join", join_method},
                                                    {"lower", case_method<Case::kLower>},
                                                    {"lstrip", strip_method<Side::kLeft>},
                                                    {"removeprefix", remove_affix<true>},
                                                    {"removesuffix", remove_affix<false>},
                                                    {"replace", replace_method},
                                                    {"rsplit", split_method<true>},
                                                    {"rstrip", strip_method<Side::kRight>},
                                                    {"split", split_method<false>},
                                                    {"splitlines", splitlines_method},
                                                    {"startswith", affix_test<starts_with>},
                                                    {"strip", strip_method<Side::kBoth>},
                                                    {"title", case_method<Case::kTitle>},
                                                    {"upper", case_method<Case::kUpper>}}};

enum class Part { kKeys, kValues, kItems };

template <Part kPart>
Result<Value> dict_part(Interpreter& interpreter, const Value& object, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {}));
  static_cast<void>(parameters);
  const Dict& dict = *object.as_dict();
  PHALANX_RETURN_IF_ERROR(interpreter.charge(dict.entries().size() * sizeof(Value)));
  if (kPart == Part::kItems) {
    PHALANX_TRY(std::vector<Value> items, items_of(dict));
    return Value::view("dict_items", std::move(items));
  }
  std::vector<Value> parts;
  for (const Dict::Entry& entry : dict.entries()) {
    parts.push_back(kPart == Part::kKeys ? Value(entry.key) : entry.value);
  }
  return Value::view(kPart == Part::kKeys ? "dict_keys" : "dict_values", std::move(parts));
}

Result<Value> get_method(Interpreter& /*interpreter*/, const Value& object, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"key", "default"}));
  PHALANX_TRY(const Value key, parameters.required(0));
  const MarkedText* const name = key.as_text();
  const Value* const value = name == nullptr ? nullptr : object.as_dict()->find(name->view());
  if (value != nullptr) {
    return *value;
  }
  return parameters.has(1) ? *parameters.get(1) : Value();
}

constexpr std::array<MethodEntry, 4> kDictMethods{{{"get", get_method},
                                                   {"items", dict_part<Part::kItems>},
                                                   {"keys", dict_part<Part::kKeys>},
                                                   {"values", dict_part<Part::kValues>}}};

Result<Value> cycle_method(Interpreter& /*interpreter*/,
                           const Value& object,
                           Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) {
    return invalid_argument("loop.cycle: expected values");
  }
  const LoopState& loop = **object.get<LoopState*>();
  return arguments.positional[loop.index % arguments.positional.size()];
}

Result<Value> changed_method(Interpreter& /*interpreter*/,
                             const Value& object,
                             Arguments& arguments) {
  LoopState& loop = **object.get<LoopState*>();
  const bool same =
      loop.index > 0 && loop.last_changed.size() == arguments.positional.size() &&
      std::equal(
          loop.last_changed.begin(), loop.last_changed.end(), arguments.positional.begin(), equal);
  loop.last_changed = std::move(arguments.positional);
  return Value(!same);
}

constexpr std::array<MethodEntry, 2> kLoopMethods{
    {{"changed", changed_method}, {"cycle", cycle_method}}};

const MethodEntry* find_in(std::span<const MethodEntry> table, std::string_view name) {
  for (const MethodEntry& entry : table) {
    if (entry.name == name) {
      return &entry;
    }
  }
  return nullptr;
}

const MethodEntry* find_method_of(const Value& object, std::string_view name) {
  if (object.as_text() != nullptr) {
    return find_in(kTextMethods, name);
  }
  if (object.as_dict() != nullptr) {
    return find_in(kDictMethods, name);
  }
  return object.is<LoopState*>() ? find_in(kLoopMethods, name) : nullptr;
}

}  // namespace

bool is_method(std::string_view name) {
  return find_in(kTextMethods, name) != nullptr || find_in(kDictMethods, name) != nullptr ||
         find_in(kLoopMethods, name) != nullptr;
}

bool has_method(const Value& object, std::string_view name) {
  return find_method_of(object, name) != nullptr;
}

Result<Value> call_method(Interpreter& interpreter, const Method& method, Arguments& arguments) {
  const MethodEntry* const entry = find_method_of(method.object, method.name);
  if (entry == nullptr) {
    return internal_error("method \"" + method.name + "\" of " +
                          std::string(method.object.type_name()) + " is missing");
  }
  return entry->call(interpreter, method.object, arguments);
}

}  // namespace phalanx::jinja
