// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/jinja/value.h"

namespace phalanx::jinja {

// Expressions and statements may nest this deep: parser, interpreter and destructors recurse.
inline constexpr std::size_t kMaxSyntaxDepth = 200;

class Interpreter;
struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<const Expression>;
using StatementPtr = std::unique_ptr<const Statement>;
using Body = std::vector<StatementPtr>;

// The evaluated arguments of a call, filter or test.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// A filter, test or function of the language. For a filter or test the value it is applied to is
// the first positional argument.
struct Builtin {
  std::string_view name;
  Result<Value> (*call)(Interpreter& interpreter, Arguments& arguments);
};

enum class Operator {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kNegate,
  kPlus,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct Expression {
  enum class Kind {
    kLiteral,      // literal
    kName,         // name
    kList,         // operands
    kTuple,        // operands
    kDict,         // operands: key, value, key, value, …
    kUnary,        // operators[0] operands[0]
    kBinary,       // operands[0] operators[0] operands[1]
    kComparison,   // operands[0] operators[0] operands[1] operators[1] operands[2] …
    kConcat,       // operands joined as text
    kAnd,          // operands[0] and operands[1]
    kOr,           // operands[0] or operands[1]
    kNot,          // not operands[0]
    kConditional,  // operands[1] if operands[0] else operands[2] (may be null)
    kAttribute,    // operands[0].name
    kItem,         // operands[0][operands[1]]
    kSlice,        // operands[0][operands[1]:operands[2]:operands[3]], the last three may be null
    kCall,         // operands[0](arguments): macro or method
    kBuiltin,      // function, filter or test: builtin(operands…, named…)
  };

  Kind kind;
  std::size_t line = 0;
  std::size_t depth = 1;
  Value literal;
  std::string name;
  std::vector<Operator> operators;
  std::vector<ExpressionPtr> operands;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  const Builtin* builtin = nullptr;
};

// Where an assignment goes: one name, several (a tuple is taken apart), or a namespace attribute.
struct Target {
  std::vector<std::string> names;
  bool is_tuple = false;
  std::string attribute;  // not empty: names[0].attribute
};

struct MacroDefinition {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  Body body;
};

struct Statement {
  enum class Kind {
    kText,      // text
    kOutput,    // expression
    kIf,        // branches, else_body
    kFor,       // target, expression, condition (may be null), body, else_body
    kSet,       // target, expression
    kSetBlock,  // target, filters, body
    kWith,      // assignments, body
    kFilter,    // filters, body
    kScope,     // body
    kMacro,     // macro
    kBreak,
    kContinue,
  };

  Kind kind;
  std::size_t line = 0;
  std::string text;
  ExpressionPtr expression;
  ExpressionPtr condition;
  Target target;
  Body body;
  Body else_body;
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
  // A chain of filters over the text of the body, which it reads under this name.
  ExpressionPtr filters;
  std::unique_ptr<const MacroDefinition> macro;
};

// The name under which `filters` sees the text of its body; no template can spell it.
inline constexpr const char* kBodyName = " body";

}  // namespace phalanx::jinja
