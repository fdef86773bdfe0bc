// SPDX-License-Identifier: Apache-2.0
#include "survey.h"

namespace phalanx::jinja {
namespace {

using Kind = Expression::Kind;

// "content", "message.content" or "message['content']", also behind filters.
bool is_content(const Expression& expression) {
  switch (expression.kind) {
    case Kind::kName:
    case Kind::kAttribute:
      return expression.name == "content";
    case Kind::kItem: {
      const MarkedText* const key = expression.operands[1]->literal.as_text();
      return key != nullptr && key->text() == "content";
    }
    case Kind::kBuiltin:
    case Kind::kSlice:
      return !expression.operands.empty() && is_content(*expression.operands[0]);
    default:
      return false;
  }
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

  [[nodiscard]] Survey take() { return std::move(survey_); }

 private:
  void visit(const ExpressionPtr& expression) {
    if (expression == nullptr) {
      return;
    }
    if (expression->kind == Kind::kName) {
      survey_.names.insert(expression->name);
    } else if (expression->kind == Kind::kBuiltin) {
      survey_.asks_for_types = survey_.asks_for_types || tells_types(expression->builtin->name);
    }
    for (const ExpressionPtr& operand : expression->operands) {
      visit(operand);
    }
    for (const auto& [name, operand] : expression->named) {
      visit(operand);
    }
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
};

}  // namespace

Survey survey(const Body& body) {
  Surveyor surveyor;
  surveyor.visit(body);
  return surveyor.take();
}

}  // namespace phalanx::jinja
