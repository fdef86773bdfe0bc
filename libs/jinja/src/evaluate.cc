// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>

#include "builtins.h"
#include "interpreter.h"
#include "operations.h"

namespace phalanx::jinja {
namespace {

using Kind = Expression::Kind;

Value loop_attribute(const LoopState& loop, std::string_view name) {
  const std::size_t count = loop.items->size();
  if (name == "index") {
    return Value::integer(loop.index + 1);
  }
  if (name == "index0") {
    return Value::integer(loop.index);
  }
  if (name == "revindex") {
    return Value::integer(count - loop.index);
  }
  if (name == "revindex0") {
    return Value::integer(count - loop.index - 1);
  }
  if (name == "first") {
    return Value(loop.index == 0);
  }
  if (name == "last") {
    return Value(loop.index + 1 == count);
  }
  if (name == "length") {
    return Value::integer(count);
  }
  if (name == "depth" || name == "depth0") {
    // Counts recursive loops only, which there are none of.
    return Value::integer(name == "depth" ? 1 : 0);
  }
  if (name == "previtem") {
    return loop.index == 0 ? Value::undefined("there is no previous item")
                           : (*loop.items)[loop.index - 1];
  }
  if (name == "nextitem") {
    return loop.index + 1 == count ? Value::undefined("there is no next item")
                                   : (*loop.items)[loop.index + 1];
  }
  return Value::undefined("'loop' has no attribute '" + std::string(name) + "'");
}

Value missing(const Value& object, std::string_view name) {
  return Value::undefined("'" + std::string(object.type_name()) + "' has no attribute '" +
                          std::string(name) + "'");
}

Value method_of(const Value& object, std::string_view name) {
  return Value(std::make_shared<const Method>(Method{object, std::string(name)}));
}

}  // namespace

Result<Value> Interpreter::attribute(const Value& object, std::string_view name) {
  if (const auto* undefined = object.get<Value::Undefined>()) {
    return invalid_argument(*undefined->reason);
  }
  if (const auto* loop = object.get<LoopState*>(); loop != nullptr && !has_method(object, name)) {
    return loop_attribute(**loop, name);
  }
  if (const auto* space = object.get<Value::NamespacePtr>()) {
    const Value* const value = (*space)->find(name);
    return value != nullptr ? *value : missing(object, name);
  }
  // As in Python, a method hides a key of the same name; `x['items']` reaches the key.
  if (has_method(object, name)) {
    return method_of(object, name);
  }
  if (const Dict* dict = object.as_dict()) {
    if (const Value* value = dict->find(name)) {
      return *value;
    }
  }
  return missing(object, name);
}

Result<Value> Interpreter::item(const Value& object, const Value& key) {
  if (const auto* undefined = object.get<Value::Undefined>()) {
    return invalid_argument(*undefined->reason);
  }
  if (const MarkedText* name = key.as_text()) {
    if (const Dict* dict = object.as_dict()) {
      const Value* const value = dict->find(name->view());
      return value != nullptr                   ? *value
             : has_method(object, name->view()) ? method_of(object, name->view())
                                                : missing(object, name->view());
    }
    return attribute(object, name->view());
  }
  const auto index = key.as_integer();
  const Iterable* const range = object.as_iterable();
  if (range != nullptr && range->is_range()) {
    PHALANX_TRY(const Value list, Value::list(range->items));
    return item(list, key);
  }
  if (!index.has_value() || (object.as_list() == nullptr && object.as_text() == nullptr)) {
    PHALANX_TRY(const MarkedText shown, to_text(key));
    return missing(object, shown.view());
  }
  PHALANX_TRY(const std::size_t size, length(object));
  const std::int64_t place = *index < 0 ? *index + static_cast<std::int64_t>(size) : *index;
  if (place < 0 || place >= static_cast<std::int64_t>(size)) {
    return Value::undefined("'" + std::string(object.type_name()) + "' has no element " +
                            std::to_string(*index));
  }
  if (const List* list = object.as_list()) {
    return list->items[static_cast<std::size_t>(place)];
  }
  return slice_of(*this, object, Value(place), Value(place + 1), Value());
}

Result<Value> Interpreter::evaluate(const Expression& expression, Scope& scope) {
  const Level level(depth_);
  PHALANX_RETURN_IF_ERROR(level.check());
  PHALANX_TRY(Value value, evaluate_by_kind(expression, scope));
  // Whoever takes it may go through all of it.
  PHALANX_RETURN_IF_ERROR(check_time(value.walk_bytes()));
  return value;
}

Result<Value> Interpreter::evaluate_by_kind(const Expression& expression, Scope& scope) {
  switch (expression.kind) {
    case Kind::kLiteral:
      return expression.literal;
    case Kind::kName:
      return evaluate_name(expression, scope);
    case Kind::kList:
    case Kind::kTuple: {
      PHALANX_TRY(std::vector<Value> items, evaluate_all(expression, scope));
      PHALANX_RETURN_IF_ERROR(charge(items.size() * sizeof(Value)));
      return Value::list(std::move(items), expression.kind == Kind::kTuple);
    }
    case Kind::kDict:
      return evaluate_dict(expression, scope);
    case Kind::kUnary: {
      PHALANX_TRY(const Value operand, evaluate(*expression.operands[0], scope));
      return apply_unary(expression.operators[0], operand);
    }
    case Kind::kBinary: {
      PHALANX_TRY(const Value left, evaluate(*expression.operands[0], scope));
      PHALANX_TRY(const Value right, evaluate(*expression.operands[1], scope));
      return apply_binary(*this, expression.operators[0], left, right);
    }
    case Kind::kComparison:
      return evaluate_comparison(expression, scope);
    case Kind::kConcat:
      return evaluate_concat(expression, scope);
    case Kind::kAnd:
    case Kind::kOr: {
      PHALANX_TRY(Value left, evaluate(*expression.operands[0], scope));
      return left.is_true() == (expression.kind == Kind::kOr)
                 ? Result<Value>(std::move(left))
                 : evaluate(*expression.operands[1], scope);
    }
    case Kind::kNot: {
      PHALANX_TRY(const Value operand, evaluate(*expression.operands[0], scope));
      return Value(!operand.is_true());
    }
    case Kind::kConditional:
      return evaluate_conditional(expression, scope);
    case Kind::kAttribute: {
      PHALANX_TRY(const Value object, evaluate(*expression.operands[0], scope));
      return attribute(object, expression.name);
    }
    case Kind::kItem: {
      PHALANX_TRY(const Value object, evaluate(*expression.operands[0], scope));
      PHALANX_TRY(const Value key, evaluate(*expression.operands[1], scope));
      return item(object, key);
    }
    case Kind::kSlice:
      return evaluate_slice(expression, scope);
    case Kind::kCall:
      return evaluate_call(expression, scope);
    case Kind::kBuiltin: {
      PHALANX_TRY(Arguments arguments, evaluate_arguments(expression, 0, scope));
      return expression.builtin->call(*this, arguments);
    }
  }
  return internal_error("expression of unknown kind");
}

Result<Value> Interpreter::evaluate_name(const Expression& expression, Scope& scope) {
  if (const Value* const value = scope.find(expression.name)) {
    return *value;
  }
  const Builtin* const function = find_function(expression.name);
  return function != nullptr ? Value(function)
                             : Value::undefined("'" + expression.name + "' is undefined");
}

Result<std::vector<Value>> Interpreter::evaluate_all(const Expression& expression, Scope& scope) {
  std::vector<Value> values;
  for (const ExpressionPtr& operand : expression.operands) {
    PHALANX_TRY(Value value, evaluate(*operand, scope));
    values.push_back(std::move(value));
  }
  return values;
}

Result<Value> Interpreter::evaluate_dict(const Expression& expression, Scope& scope) {
  PHALANX_TRY(std::vector<Value> values, evaluate_all(expression, scope));
  PHALANX_RETURN_IF_ERROR(charge(values.size() * sizeof(Value)));
  Dict dict;
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const auto* key = values[i].get<TextPtr>();
    if (key == nullptr) {
      return invalid_argument("a key must be a string, found " +
                              std::string(values[i].type_name()));
    }
    dict.set(*key, std::move(values[i + 1]));
  }
  return Value::dict(std::move(dict));
}

Result<Value> Interpreter::evaluate_comparison(const Expression& expression, Scope& scope) {
  PHALANX_TRY(Value left, evaluate(*expression.operands[0], scope));
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    PHALANX_TRY(Value right, evaluate(*expression.operands[i + 1], scope));
    PHALANX_TRY(const bool holds, apply_comparison(expression.operators[i], left, right));
    if (!holds) {
      return Value(false);
    }
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Interpreter::evaluate_concat(const Expression& expression, Scope& scope) {
  MarkedText joined;
  for (const ExpressionPtr& operand : expression.operands) {
    PHALANX_TRY(const Value value, evaluate(*operand, scope));
    PHALANX_TRY(const MarkedText text, to_text(value));
    PHALANX_RETURN_IF_ERROR(charge(text.size()));
    joined.append(text);
  }
  return Value::text(std::move(joined));
}

Result<Value> Interpreter::evaluate_conditional(const Expression& expression, Scope& scope) {
  PHALANX_TRY(const Value condition, evaluate(*expression.operands[0], scope));
  if (condition.is_true()) {
    return evaluate(*expression.operands[1], scope);
  }
  if (expression.operands[2] == nullptr) {
    return Value::undefined("the condition was false and there is no else");
  }
  return evaluate(*expression.operands[2], scope);
}

Result<Value> Interpreter::evaluate_slice(const Expression& expression, Scope& scope) {
  std::vector<Value> parts;
  for (const ExpressionPtr& operand : expression.operands) {
    parts.emplace_back();
    if (operand != nullptr) {
      PHALANX_TRY(parts.back(), evaluate(*operand, scope));
    }
  }
  return slice_of(*this, parts[0], parts[1], parts[2], parts[3]);
}

Result<Arguments> Interpreter::evaluate_arguments(const Expression& expression,
                                                  std::size_t first,
                                                  Scope& scope) {
  Arguments arguments;
  for (std::size_t i = first; i < expression.operands.size(); ++i) {
    PHALANX_TRY(Value value, evaluate(*expression.operands[i], scope));
    arguments.positional.push_back(std::move(value));
  }
  for (const auto& [name, operand] : expression.named) {
    PHALANX_TRY(Value value, evaluate(*operand, scope));
    arguments.named.emplace_back(name, std::move(value));
  }
  return arguments;
}

Result<Value> Interpreter::evaluate_call(const Expression& expression, Scope& scope) {
  PHALANX_TRY(const Value callee, evaluate(*expression.operands[0], scope));
  PHALANX_TRY(Arguments arguments, evaluate_arguments(expression, 1, scope));
  if (const auto* macro = callee.get<Macro>()) {
    return call_macro(*macro, arguments);
  }
  if (const auto* method = callee.get<Value::MethodPtr>()) {
    return call_method(*this, **method, arguments);
  }
  if (const auto* undefined = callee.get<Value::Undefined>()) {
    return invalid_argument(*undefined->reason);
  }
  return invalid_argument(std::string(callee.type_name()) + " cannot be called");
}

Result<Value> Interpreter::call_macro(const Macro& macro, Arguments& arguments) {
  const MacroDefinition& definition = *macro.definition;
  if (arguments.positional.size() > definition.parameters.size()) {
    return invalid_argument("macro \"" + definition.name + "\" takes " +
                            std::to_string(definition.parameters.size()) + " arguments, found " +
                            std::to_string(arguments.positional.size()));
  }
  if (macro_depth_ == limits_.macro_depth_max) {
    return resource_exhausted("macros call each other deeper than " +
                              std::to_string(limits_.macro_depth_max));
  }
  Scope scope(macro.scope);
  const std::size_t without_default = definition.parameters.size() - definition.defaults.size();
  for (std::size_t i = 0; i < definition.parameters.size(); ++i) {
    const std::string& name = definition.parameters[i];
    const auto named = std::find_if(arguments.named.begin(),
                                    arguments.named.end(),
                                    [&](const auto& argument) { return argument.first == name; });
    if (i < arguments.positional.size()) {
      scope.set(name, std::move(arguments.positional[i]));
    } else if (named != arguments.named.end()) {
      scope.set(name, std::move(named->second));
      arguments.named.erase(named);
    } else if (i >= without_default) {
      PHALANX_TRY(Value value, evaluate(*definition.defaults[i - without_default], scope));
      scope.set(name, std::move(value));
    } else {
      scope.set(name, Value::undefined("parameter '" + name + "' was not provided"));
    }
  }
  if (!arguments.named.empty()) {
    return invalid_argument("macro \"" + definition.name + "\" takes no argument \"" +
                            arguments.named.front().first + "\"");
  }
  MarkedText text;
  ++macro_depth_;
  PHALANX_TRY(const Flow flow, execute_scope(definition.body, scope, text));
  static_cast<void>(flow);  // the parser lets no break out of a macro
  --macro_depth_;
  return Value::text(std::move(text));
}

}  // namespace phalanx::jinja
