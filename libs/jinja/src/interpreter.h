// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/base/thread_time.h"
#include "phalanx/jinja/limits.h"
#include "phalanx/jinja/value.h"

#include "ast.h"
#include "unset_names.h"
#include "value_kinds.h"

namespace phalanx::jinja {

// The variables of one block, and the blocks around it.
class Scope {
 public:
  explicit Scope(Scope* parent) : parent_(parent) {}

  // The innermost variable of that name, or null.
  [[nodiscard]] const Value* find(std::string_view name) const;
  // Adds a variable that this block does not have yet.
  void add(std::string_view name, Value value) { variables_.emplace_back(name, std::move(value)); }
  // Sets the variable in this block.
  void set(std::string_view name, Value value);

 private:
  Scope* parent_;
  std::vector<std::pair<std::string_view, Value>> variables_;  // names live in the syntax tree
};

// What `loop` tells inside a for loop.
struct LoopState {
  const std::vector<Value>* items = nullptr;
  std::size_t index = 0;
  std::vector<Value> last_changed;  // of loop.changed()
};

// Runs one rendering. Every byte built and every iteration is charged against the limits.
class Interpreter {
 public:
  // Borrows `unset`, the names of the template that is run.
  Interpreter(const Limits& limits,
              const UnsetNames& unset,
              std::chrono::system_clock::time_point now)
      : limits_(limits), unset_(unset), now_(now), time_(limits.cpu_time_max) {}

  // Renders the template `body` with the variables of `globals` around it.
  //
  // Errors: as Template::render(), with the line; those of raise_exception() without
  [[nodiscard]] Result<MarkedText> run(const Body& body, Scope& globals);

  [[nodiscard]] std::chrono::system_clock::time_point now() const { return now_; }

  // Counts work before it is done.
  // Errors: kResourceExhausted  past the limit
  [[nodiscard]] Status charge(std::size_t bytes);
  // Looks at the clock now and then, the sooner the more bytes were or can be gone through. For
  // work that builds nothing.
  // Errors: kResourceExhausted  past the limit
  [[nodiscard]] Status check_time(std::size_t bytes = 0);
  // elements(), whose bytes are charged before they are made.
  // Errors: as elements() and charge()
  [[nodiscard]] Result<std::vector<Value>> elements_of(const Value& value);
  // What raise_exception() gives: the template's own words.
  [[nodiscard]] Error raise(std::string message);

  // `object.name`; undefined if there is none.
  // Errors: kInvalidArgument  object is undefined
  [[nodiscard]] Result<Value> attribute(const Value& object, std::string_view name);
  // `object[key]`, likewise.
  [[nodiscard]] Result<Value> item(const Value& object, const Value& key);

 private:
  // One level of recursion, for its own scope. Macros multiply the depth that the parser allows.
  class Level {
   public:
    explicit Level(std::size_t& depth) : depth_(depth) { ++depth_; }
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

    // Errors: kResourceExhausted  too deep for the stack
    [[nodiscard]] Status check() const;

   private:
    std::size_t& depth_;
  };

  // How a statement list was left.
  enum class Flow { kOn, kBreak, kContinue };

  // Executes a body whose scope begins now; `scope` may hold its parameters already.
  [[nodiscard]] Result<Flow> execute_scope(const Body& body, Scope& scope, MarkedText& out);
  [[nodiscard]] Result<Flow> execute(const Body& body, Scope& scope, MarkedText& out);
  [[nodiscard]] Result<Flow> execute(const Statement& statement, Scope& scope, MarkedText& out);
  // Of a loop's body or condition.
  // Errors: kResourceExhausted  past the limit
  [[nodiscard]] Status count_iteration();
  [[nodiscard]] Status emit(const MarkedText& text, MarkedText& out);
  [[nodiscard]] Result<Flow> run_if(const Statement& statement, Scope& scope, MarkedText& out);
  [[nodiscard]] Result<Flow> run_for(const Statement& statement, Scope& scope, MarkedText& out);
  [[nodiscard]] Result<std::vector<Value>> loop_items(const Statement& statement, Scope& scope);
  [[nodiscard]] Status run_set(const Statement& statement, Scope& scope);
  [[nodiscard]] Result<Flow> run_with(const Statement& statement, Scope& scope, MarkedText& out);
  // The text of `body` in a scope of its own, through the statement's filters.
  [[nodiscard]] Result<Value> captured(const Statement& statement, Scope& scope);
  [[nodiscard]] Status assign(const Target& target, Value value, Scope& scope);

  [[nodiscard]] Result<Value> evaluate(const Expression& expression, Scope& scope);
  [[nodiscard]] Result<Value> evaluate_by_kind(const Expression& expression, Scope& scope);
  [[nodiscard]] Result<Value> evaluate_name(const Expression& expression, Scope& scope);
  [[nodiscard]] Result<std::vector<Value>> evaluate_all(const Expression& expression, Scope& scope);
  [[nodiscard]] Result<Value> evaluate_dict(const Expression& expression, Scope& scope);
  [[nodiscard]] Result<Value> evaluate_comparison(const Expression& expression, Scope& scope);
  [[nodiscard]] Result<Value> evaluate_concat(const Expression& expression, Scope& scope);
  [[nodiscard]] Result<Value> evaluate_conditional(const Expression& expression, Scope& scope);
  [[nodiscard]] Result<Value> evaluate_slice(const Expression& expression, Scope& scope);
  [[nodiscard]] Result<Arguments> evaluate_arguments(const Expression& expression,
                                                     std::size_t first,
                                                     Scope& scope);
  [[nodiscard]] Result<Value> evaluate_call(const Expression& expression, Scope& scope);
  [[nodiscard]] Result<Value> call_macro(const Macro& macro, Arguments& arguments);

  const Limits& limits_;
  const UnsetNames& unset_;
  std::chrono::system_clock::time_point now_;
  CpuTimeLimit time_;
  std::size_t steps_ = 0;  // since the clock was looked at
  std::size_t work_bytes_ = 0;
  std::size_t iterations_ = 0;
  std::size_t depth_ = 0;
  std::size_t macro_depth_ = 0;
  bool error_is_placed_ = false;  // the error on its way up names its line, or needs none
};

}  // namespace phalanx::jinja
