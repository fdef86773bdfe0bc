// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "phalanx/base/utf8.h"
#include "phalanx/jinja/json_value.h"

#include "builtins.h"
#include "interpreter.h"

namespace phalanx::jinja {
namespace {

// The first argument as text, printed if it is none: what most text filters begin with.
Result<MarkedText> input_text(Interpreter& interpreter, const Parameters& parameters) {
  PHALANX_TRY(const Value value, parameters.required(0));
  PHALANX_TRY(MarkedText text, to_text(value));
  PHALANX_RETURN_IF_ERROR(interpreter.charge(text.size()));
  return text;
}

template <Case kCase>
Result<Value> case_filter(Interpreter& interpreter, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"value"}));
  PHALANX_TRY(const MarkedText text, input_text(interpreter, parameters));
  return Value::text(change_case(text, kCase));
}

// Unlike the method of that name, the filter begins words at spaces, hyphens and brackets only.
Result<Value> title(Interpreter& interpreter, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"value"}));
  PHALANX_TRY(const MarkedText text, input_text(interpreter, parameters));
  MarkedText result;
  std::size_t word = 0;
  const auto flush = [&](std::size_t end) {
    std::size_t second = word;
    if (word < end) {
      static_cast<void>(next_code_point(text.view(), second));
    }
    result.append(change_case(text.slice(word, second), Case::kUpper));
    result.append(change_case(text.slice(second, end), Case::kLower));
    word = end;
  };
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    const char32_t c = next_code_point(text.view(), i);
    if (is_strip_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<') {
      flush(begin);
      flush(i);
    }
  }
  flush(text.size());
  return Value::text(std::move(result));
}

Result<Value> trim(Interpreter& interpreter, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"value", "chars"}));
  PHALANX_TRY(const MarkedText text, input_text(interpreter, parameters));
  if (!parameters.has(1) || parameters.get(1)->is_none()) {
    return Value::text(strip(text, nullptr, Side::kBoth));
  }
  PHALANX_TRY(const MarkedText characters, parameters.text(1, ""));
  PHALANX_RETURN_IF_ERROR(interpreter.charge(characters.size()));
  return Value::text(strip(text, &characters, Side::kBoth));
}

Result<Value> replace(Interpreter& interpreter, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters,
              Parameters::bind(arguments, {"s", "old", "new", "count"}));
  PHALANX_TRY(const MarkedText text, input_text(interpreter, parameters));
  PHALANX_TRY(const Value from, parameters.required(1));
  PHALANX_TRY(const Value to, parameters.required(2));
  PHALANX_TRY(const MarkedText from_text, to_text(from));
  PHALANX_TRY(const MarkedText replacement, to_text(to));
  PHALANX_TRY(const std::int64_t count, parameters.integer(3, -1));
  PHALANX_RETURN_IF_ERROR(charge_replacement(interpreter, text, from_text, replacement));
  return Value::text(replace_all(text, from_text.view(), replacement, count));
}

Result<Value> string(Interpreter& interpreter, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters, Parameters::bind(arguments, {"value"}));
  PHALANX_TRY(MarkedText text, input_text(interpreter, parameters));
  return Value::text(std::move(text));
}

// Only marks a text as safe for HTML, which is never escaped here.
Result<Value> safe(Interpreter& interpreter, Arguments& arguments) {
  return string(interpreter, arguments);
}

Result<Value> indent(Interpreter& interpreter, Arguments& arguments) {
  PHALANX_TRY(const Parameters parameters,
              Parameters::bind(arguments, {"s", "width", "first", "blank"}));
  PHALANX_TRY(const MarkedText text, parameters.text(0, ""));
  PHALANX_RETURN_IF_ERROR(interpreter.charge(text.size()));
  MarkedText margin;
  if (parameters.has(1) && parameters.get(1)->as_text() != nullptr) {
    margin = *parameters.get(1)->as_text();
  } else {
    PHALANX_TRY(const std::int64_t width, parameters.integer(1, 4));
    const auto spaces = static_cast<std::size_t>(std::max<std::int64_t>(width, 0));
    PHALANX_RETURN_IF_ERROR(interpreter.charge(spaces));
    margin = MarkedText::literal(std::string(spaces, ' '));
  }
  PHALANX_TRY(const bool first, parameters.boolean(2, false));
  PHALANX_TRY(const bool blank, parameters.boolean(3, false));
  // Jinja puts a line end behind the text first, so that one at its end stays.
  MarkedText ended = text;
  ended.append_like(text, "\n");
  PHALANX_TRY(const std::vector<MarkedText> lines, lines_of(interpreter, ended));
  MarkedText result;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    PHALANX_RETURN_IF_ERROR(interpreter.charge(margin.size() + lines[i].size()));
    if (i > 0) {
      result.append_like(text, "\n");
    }
    if (i == 0 ? first : blank || !lines[i].empty()) {
      result.append(margin);
    }
    result.append(lines[i]);
  }
  return Value::text(std::move(result));
}

Result<Value> tojson(Interpreter& interpreter, Arguments& arguments) {
  PHALANX_TRY(
      const Parameters parameters,
      Parameters::bind(arguments, {"x", "ensure_ascii", "indent", "separators", "sort_keys"}));
  PHALANX_TRY(const Value value, parameters.required(0));
  JsonStyle style;
  PHALANX_TRY(style.ensure_ascii, parameters.boolean(1, false));
  if (parameters.has(2) && !parameters.get(2)->is_none()) {
    PHALANX_TRY(style.indent, parameters.integer(2, 0));
    style.indent = std::clamp<std::int64_t>(*style.indent, 0, 64);
    style.item_separator = MarkedText::literal(",");
  }
  if (parameters.has(3) && !parameters.get(3)->is_none()) {
    const List* const separators = parameters.get(3)->as_list();
    if (separators == nullptr || separators->items.size() != 2 ||
        separators->items[0].as_text() == nullptr || separators->items[1].as_text() == nullptr) {
      return invalid_argument("argument \"separators\": expected two strings");
    }
    style.item_separator = *separators->items[0].as_text();
    style.key_separator = *separators->items[1].as_text();
  }
  PHALANX_TRY(style.sort_keys, parameters.boolean(4, false));
  PHALANX_TRY(MarkedText text,
              to_json(value, style, [&](std::size_t bytes) { return interpreter.charge(bytes); }));
  return Value::text(std::move(text));
}

constexpr std::array<Builtin, 10> kTextFilters{{{"capitalize", case_filter<Case::kCapitalize>},
                                                {"indent", indent},
                                                {"lower", case_filter<Case::kLower>},
                                                {"replace", replace},
                                                {"safe", safe},
                                                {"string", string},
                                                {"title", title},
                                                {"tojson", tojson},
                                                {"trim", trim},
                                                {"upper", case_filter<Case::kUpper>}}};

}  // namespace

Status charge_replacement(Interpreter& interpreter,
                          const MarkedText& text,
                          const MarkedText& from,
                          const MarkedText& to) {
  const std::size_t places = text.size() / std::max<std::size_t>(from.size(), 1) + 1;
  if (to.size() > 0 && places > SIZE_MAX / 2 / to.size()) {
    return interpreter.charge(SIZE_MAX);
  }
  // At most: a replacement that would be too much if it matched everywhere is refused only if it
  // is too much for the whole rendering.
  return interpreter.charge(text.size() + (to.size() > from.size() ? places * to.size() : 0));
}

std::span<const Builtin> text_filters() {
  return kTextFilters;
}

}  // namespace phalanx::jinja
