// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "phalanx/base/result.h"
#include "phalanx/jinja/value.h"

#include "ast.h"
#include "value_kinds.h"

namespace phalanx::jinja {

// The vocabulary of the language, one table a kind. A name that a table does not have is refused
// when the template is compiled.
[[nodiscard]] const Builtin* find_filter(std::string_view name);
[[nodiscard]] const Builtin* find_test(std::string_view name);
[[nodiscard]] const Builtin* find_function(std::string_view name);
[[nodiscard]] bool is_method(std::string_view name);

// One part of the tables, each in a file of its own.
[[nodiscard]] std::span<const Builtin> text_filters();
[[nodiscard]] std::span<const Builtin> sequence_filters();
[[nodiscard]] std::span<const Builtin> sorting_filters();
[[nodiscard]] std::span<const Builtin> number_filters();

// Calls a method of a value that has it.
[[nodiscard]] Result<Value> call_method(Interpreter& interpreter,
                                        const Method& method,
                                        Arguments& arguments);
// Whether a value of this kind has the method.
[[nodiscard]] bool has_method(const Value& object, std::string_view name);

// The arguments of one call by name, wherever they stand: positional first, as declared. The first
// declared is the value that a filter or test is applied to.
class Parameters {
 public:
  // Errors: kInvalidArgument  more arguments than names, or a name that is not declared
  [[nodiscard]] static Result<Parameters> bind(Arguments& arguments,
                                               std::initializer_list<std::string_view> names);

  // The argument, or null if it was not given.
  [[nodiscard]] const Value* get(std::size_t index) const {
    return values_[index].has_value() ? &*values_[index] : nullptr;
  }
  [[nodiscard]] bool has(std::size_t index) const { return values_[index].has_value(); }

  // Errors: kInvalidArgument  not given and no fallback, or of another type
  [[nodiscard]] Result<Value> required(std::size_t index) const;
  [[nodiscard]] Result<bool> boolean(std::size_t index, bool fallback) const;
  [[nodiscard]] Result<std::int64_t> integer(std::size_t index, std::int64_t fallback) const;
  [[nodiscard]] Result<MarkedText> text(std::size_t index, std::string_view fallback) const;

 private:
  std::vector<std::string_view> names_;
  std::vector<std::optional<Value>> values_;
};

// Python operations that filters and methods share.
[[nodiscard]] bool is_strip_space(char32_t code_point);
[[nodiscard]] MarkedText replace_all(const MarkedText& text,
                                     std::string_view from,
                                     const MarkedText& to,
                                     std::int64_t count);
// Charges what replacing can cost at most.
[[nodiscard]] Status charge_replacement(Interpreter& interpreter,
                                        const MarkedText& text,
                                        const MarkedText& from,
                                        const MarkedText& to);
// The lines as Python's str.splitlines() finds them, without their ends. Each is charged before it
// is made.
// Errors: kResourceExhausted  past the limit
[[nodiscard]] Result<std::vector<MarkedText>> lines_of(Interpreter& interpreter,
                                                       const MarkedText& text);
enum class Case { kLower, kUpper, kTitle, kCapitalize };
[[nodiscard]] MarkedText change_case(const MarkedText& text, Case to);
// (key, value) of every entry.
[[nodiscard]] Result<std::vector<Value>> items_of(const Dict& dict);
// `value.attribute` where attribute may be a path ("function.name") or an index.
[[nodiscard]] Result<Value> attribute_path(Interpreter& interpreter,
                                           const Value& value,
                                           const Value& path);

}  // namespace phalanx::jinja
