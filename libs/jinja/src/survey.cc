// SPDX-License-Identifier: Apache-2.0
#include "survey.h"

namespace phalanx::jinja {
namespace {

using Kind = Expression::Kind;

// `name`, "message.name" or "message['name']".
bool is_called(const Expression& expression, std::string_view name) {
  switch (expression.kind) {
    case Kind::kName:
    case Kind::kAttribute:
      return expression.name == name;
    case Kind::kItem: {
      const MarkedText* const key = expression.operands[1]->literal.as_text();
      return key != nullptr && key->text() == name;
    }
    default:
      return false;
  }
}

// Something called content, also behind filters.
bool is_content(const Expression& expression) {
  const bool wraps = expression.kind == Kind::kBuiltin || expression.kind == Kind::kSlice;
  return wraps ? !expression.operands.empty() && is_content(*expression.operands[0])
               : is_called(expression, "content");
}

bool tells_types(std::string_view builtin) {
  return builtin == "string" || builtin == "sequence" || builtin == "iterable" ||
         builtin == "mapping";
}

// Recursion is as deep as the syntax, which the parser bounds.
class Surveyor {
 public:
  void visit(const Body& body) {
    for (const StatementPtr& statement : body) {
      visit(*statement);
    }
  }

  [[nodiscard]] Survey take() {
    survey_.joins_arguments = survey_.joins_arguments && !looks_at_arguments_;
    return std::move(survey_);
  }

 private:
  void visit(const ExpressionPtr& expression) {
    if (expression == nullptr) {
      return;
    }
    if (expression->kind == Kind::kName) {
      survey_.names.insert(expression->name);
    } else if (expression->kind == Kind::kBuiltin) {
      visit_builtin(*expression);
    } else if (expression->kind == Kind::kBinary || expression->kind == Kind::kConcat) {
      for (const ExpressionPtr& operand : expression->operands) {
        survey_.joins_arguments = survey_.joins_arguments || is_called(*operand, "arguments");
      }
    } else if (expression->kind == Kind::kAttribute && expression->operands[0] != nullptr) {
      looks_at_arguments_ = looks_at_arguments_ || is_called(*expression->operands[0], "arguments");
    }
    for (const ExpressionPtr& operand : expression->operands) {
      visit(operand);
    }
    for (const auto& [name, operand] : expression->named) {
      visit(operand);
    }
  }

  void visit_builtin(const Expression& expression) {
    survey_.asks_for_types = survey_.asks_for_types || tells_types(expression.builtin->name);
    if (expression.operands.empty() || expression.operands[0] == nullptr) {
      return;
    }
    const Expression& of = *expression.operands[0];
    survey_.asks_for_none =
        survey_.asks_for_none || (expression.builtin->name == "none" && is_called(of, "content"));
    looks_at_arguments_ = looks_at_arguments_ || is_called(of, "arguments");
  }

  void visit(const Statement& statement) {
    if (statement.kind == Statement::Kind::kFor) {
      survey_.iterates_content = survey_.iterates_content || is_content(*statement.expression);
    }
    visit(statement.expression);
    visit(statement.condition);
    visit(statement.filters);
    visit(statement.body);
    visit(statement.else_body);
    for (const auto& [condition, body] : statement.branches) {
      visit(condition);
      visit(body);
    }
    for (const auto& [target, value] : statement.assignments) {
      visit(value);
    }
    if (statement.macro != nullptr) {
      for (const ExpressionPtr& value : statement.macro->defaults) {
        visit(value);
      }
      visit(statement.macro->body);
    }
  }

  Survey survey_;
  bool looks_at_arguments_ = false;
};

}  // namespace

Survey survey(const Body& body) {
  Surveyor surveyor;
  surveyor.visit(body);
  return surveyor.take();
}

}  // namespace phalanx::jinja
