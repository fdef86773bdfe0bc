// SPDX-License-Identifier: Apache-2.0
#include "interpreter.h"

#include <algorithm>
#include <string>
#include <utility>

#include "builtins.h"
#include "lexer.h"

namespace phalanx::jinja {
namespace {

// What one element of a list costs against the limit on bytes.
constexpr std::size_t kElementBytes = sizeof(Value);

// Steps between two looks at the clock.
constexpr std::size_t kStepsPerLook = 64;
constexpr std::size_t kBytesPerStep = 4096;

// Statements and expressions in evaluation at one time. A level takes some hundred bytes of stack,
// a few thousand under sanitizers; threads have megabytes.
constexpr std::size_t kMaxEvaluationDepth = 600;

}  // namespace

Status Interpreter::Level::check() const {
  return depth_ <= kMaxEvaluationDepth
             ? ok()
             : Status(resource_exhausted("evaluation nests deeper than " +
                                         std::to_string(kMaxEvaluationDepth)));
}

Status Interpreter::charge(std::size_t bytes) {
  if (bytes > limits_.work_bytes_max - work_bytes_) {
    return resource_exhausted("built more than " + std::to_string(limits_.work_bytes_max) +
                              " bytes of values");
  }
  work_bytes_ += bytes;
  return check_time(bytes);
}

Result<std::vector<Value>> Interpreter::elements_of(const Value& value) {
  PHALANX_RETURN_IF_ERROR(charge(elements_bytes(value)));
  return elements(value);
}

Status Interpreter::check_time(std::size_t bytes) {
  steps_ += 1 + bytes / kBytesPerStep;
  if (steps_ < kStepsPerLook) {
    return ok();
  }
  steps_ = 0;
  if (!time_.passed()) {
    return ok();
  }
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(time_.limit());
  return resource_exhausted("took more than " + std::to_string(limit.count()) + " ms of CPU time");
}

Status Interpreter::count_iteration() {
  return ++iterations_ <= limits_.loop_iterations_max
             ? check_time()
             : Status(resource_exhausted("more than " +
                                         std::to_string(limits_.loop_iterations_max) +
                                         " loop iterations"));
}

Error Interpreter::raise(std::string message) {
  error_is_placed_ = true;
  return invalid_argument(std::move(message));
}

Result<MarkedText> Interpreter::run(const Body& body, Scope& globals) {
  // What the template sets at its top hides the variables of the request, and not the other way.
  Scope top(&globals);
  MarkedText out;
  PHALANX_TRY(const Flow flow, execute_scope(body, top, out));
  static_cast<void>(flow);  // the parser lets no break out of its loop
  return out;
}

Status Interpreter::emit(const MarkedText& text, MarkedText& out) {
  PHALANX_RETURN_IF_ERROR(charge(text.size()));
  if (text.size() > limits_.output_bytes_max - std::min(out.size(), limits_.output_bytes_max)) {
    return resource_exhausted("wrote more than " + std::to_string(limits_.output_bytes_max) +
                              " bytes");
  }
  out.append(text);
  return ok();
}

Result<Interpreter::Flow> Interpreter::execute_scope(const Body& body,
                                                     Scope& scope,
                                                     MarkedText& out) {
  const std::span<const std::string_view> names = unset_.of(body);
  PHALANX_RETURN_IF_ERROR(charge(names.size() * kElementBytes));
  for (const std::string_view name : names) {
    scope.add(name, Value::undefined("'" + std::string(name) + "' is undefined"));
  }
  return execute(body, scope, out);
}

Result<Interpreter::Flow> Interpreter::execute(const Body& body, Scope& scope, MarkedText& out) {
  const Level level(depth_);
  PHALANX_RETURN_IF_ERROR(level.check());
  for (const StatementPtr& statement : body) {
    Result<Flow> flow = execute(*statement, scope, out);
    if (!flow) {
      if (std::exchange(error_is_placed_, true)) {
        return std::move(flow).error();
      }
      return Error(flow.error().code(),
                   "chat template: " + at_line(statement->line, flow.error().message()));
    }
    if (*flow != Flow::kOn) {
      return *flow;
    }
  }
  return Flow::kOn;
}

Result<Interpreter::Flow> Interpreter::execute(const Statement& statement,
                                               Scope& scope,
                                               MarkedText& out) {
  switch (statement.kind) {
    case Statement::Kind::kText:
      PHALANX_RETURN_IF_ERROR(emit(MarkedText::literal(statement.text), out));
      return Flow::kOn;
    case Statement::Kind::kOutput: {
      PHALANX_TRY(const Value value, evaluate(*statement.expression, scope));
      PHALANX_TRY(const MarkedText text, to_text(value));
      PHALANX_RETURN_IF_ERROR(emit(text, out));
      return Flow::kOn;
    }
    case Statement::Kind::kIf:
      return run_if(statement, scope, out);
    case Statement::Kind::kFor:
      return run_for(statement, scope, out);
    case Statement::Kind::kSet:
    case Statement::Kind::kSetBlock:
      PHALANX_RETURN_IF_ERROR(run_set(statement, scope));
      return Flow::kOn;
    case Statement::Kind::kWith:
      return run_with(statement, scope, out);
    case Statement::Kind::kFilter: {
      PHALANX_TRY(const Value value, captured(statement, scope));
      PHALANX_TRY(const MarkedText text, to_text(value));
      PHALANX_RETURN_IF_ERROR(emit(text, out));
      return Flow::kOn;
    }
    case Statement::Kind::kScope: {
      Scope inner(&scope);
      return execute_scope(statement.body, inner, out);
    }
    case Statement::Kind::kMacro:
      scope.set(statement.macro->name, Value(Macro{statement.macro.get(), &scope}));
      return Flow::kOn;
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
  }
  return internal_error("statement of unknown kind");
}

Result<Interpreter::Flow> Interpreter::run_if(const Statement& statement,
                                              Scope& scope,
                                              MarkedText& out) {
  for (const auto& [condition, body] : statement.branches) {
    PHALANX_TRY(const Value value, evaluate(*condition, scope));
    if (value.is_true()) {
      return execute(body, scope, out);
    }
  }
  return execute(statement.else_body, scope, out);
}

Result<std::vector<Value>> Interpreter::loop_items(const Statement& statement, Scope& scope) {
  PHALANX_TRY(const Value iterable, evaluate(*statement.expression, scope));
  PHALANX_TRY(std::vector<Value> items, elements_of(iterable));
  if (statement.condition == nullptr) {
    return items;
  }
  std::vector<Value> kept;
  for (Value& item : items) {
    PHALANX_RETURN_IF_ERROR(count_iteration());
    Scope inner(&scope);
    PHALANX_RETURN_IF_ERROR(assign(statement.target, item, inner));
    PHALANX_TRY(const Value condition, evaluate(*statement.condition, inner));
    if (condition.is_true()) {
      kept.push_back(std::move(item));
    }
  }
  return kept;
}

Result<Interpreter::Flow> Interpreter::run_for(const Statement& statement,
                                               Scope& scope,
                                               MarkedText& out) {
  PHALANX_TRY(const std::vector<Value> items, loop_items(statement, scope));
  // Jinja takes the else branch unless some iteration came to its end: also where each one was left
  // by break or continue.
  bool any_ended = false;
  LoopState loop;
  loop.items = &items;
  for (; loop.index < items.size(); ++loop.index) {
    PHALANX_RETURN_IF_ERROR(count_iteration());
    Scope inner(&scope);
    inner.set("loop", Value(&loop));
    PHALANX_RETURN_IF_ERROR(assign(statement.target, items[loop.index], inner));
    PHALANX_TRY(const Flow flow, execute_scope(statement.body, inner, out));
    any_ended = any_ended || flow == Flow::kOn;
    if (flow == Flow::kBreak) {
      break;
    }
  }
  if (!any_ended) {
    Scope inner(&scope);
    return execute_scope(statement.else_body, inner, out);
  }
  return Flow::kOn;
}

Status Interpreter::run_set(const Statement& statement, Scope& scope) {
  if (statement.kind == Statement::Kind::kSetBlock) {
    PHALANX_TRY(Value value, captured(statement, scope));
    return assign(statement.target, std::move(value), scope);
  }
  PHALANX_TRY(Value value, evaluate(*statement.expression, scope));
  return assign(statement.target, std::move(value), scope);
}

Result<Value> Interpreter::captured(const Statement& statement, Scope& scope) {
  Scope inner(&scope);
  MarkedText text;
  PHALANX_TRY(const Flow flow, execute_scope(statement.body, inner, text));
  static_cast<void>(flow);  // the parser lets no break out of such a body
  if (statement.filters == nullptr) {
    return Value::text(std::move(text));
  }
  // Their arguments may name what the body has set.
  Scope filters(&inner);
  filters.set(kBodyName, Value::text(std::move(text)));
  PHALANX_TRY(Value value, evaluate(*statement.filters, filters));
  if (!value.is_storable()) {  // a macro of the body, whose scope ends here
    return invalid_argument(std::string(value.type_name()) + " cannot be the value of a block");
  }
  return value;
}

Result<Interpreter::Flow> Interpreter::run_with(const Statement& statement,
                                                Scope& scope,
                                                MarkedText& out) {
  Scope inner(&scope);
  for (const auto& [target, expression] : statement.assignments) {
    // The values see the variables outside, not each other.
    PHALANX_TRY(Value value, evaluate(*expression, scope));
    PHALANX_RETURN_IF_ERROR(assign(target, std::move(value), inner));
  }
  return execute_scope(statement.body, inner, out);
}

Status Interpreter::assign(const Target& target, Value value, Scope& scope) {
  if (!target.attribute.empty()) {
    const Value* const holder = scope.find(target.names.front());
    const auto* space = holder == nullptr ? nullptr : holder->get<Value::NamespacePtr>();
    if (space == nullptr) {
      return invalid_argument("cannot set attribute \"" + target.attribute + "\": not a namespace");
    }
    if (!value.is_storable()) {
      return invalid_argument(std::string(value.type_name()) + " cannot be put into a namespace");
    }
    (*space)->set(target.attribute, std::move(value));
    return ok();
  }
  if (!target.is_tuple) {
    scope.set(target.names.front(), std::move(value));
    return ok();
  }
  PHALANX_TRY(std::vector<Value> parts, elements_of(value));
  if (parts.size() != target.names.size()) {
    return invalid_argument("expected " + std::to_string(target.names.size()) +
                            " values to take apart, found " + std::to_string(parts.size()));
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    scope.set(target.names[i], std::move(parts[i]));
  }
  return ok();
}

}  // namespace phalanx::jinja
