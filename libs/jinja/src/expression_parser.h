// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "phalanx/base/result.h"

#include "ast.h"
#include "token_stream.h"

namespace phalanx::jinja {

// Parses expressions with Jinja's precedences.
class ExpressionParser {
 public:
  // `macros` are the names that the template defines, which may be called.
  ExpressionParser(TokenStream& stream, const std::set<std::string>& macros)
      : stream_(stream), macros_(macros) {}

  // One expression; without `with_condition` no `a if b`, which a for loop reads as its own.
  [[nodiscard]] Result<ExpressionPtr> expression(bool with_condition = true);
  // One expression or several with commas between, which make a tuple.
  [[nodiscard]] Result<ExpressionPtr> tuple_or_expression(bool with_condition = true);
  // A chain of filters with no value in front: "trim | upper". They are applied to `input`.
  [[nodiscard]] Result<ExpressionPtr> filter_chain(ExpressionPtr input);

 private:
  using Node = std::unique_ptr<Expression>;
  struct CallArguments {
    std::vector<ExpressionPtr> positional;
    std::vector<std::pair<std::string, ExpressionPtr>> named;
  };

  [[nodiscard]] Result<ExpressionPtr> conditional();
  [[nodiscard]] Result<ExpressionPtr> disjunction();
  [[nodiscard]] Result<ExpressionPtr> conjunction();
  [[nodiscard]] Result<ExpressionPtr> negation();
  [[nodiscard]] Result<ExpressionPtr> comparison();
  [[nodiscard]] Result<ExpressionPtr> sum();
  [[nodiscard]] Result<ExpressionPtr> concatenation();
  [[nodiscard]] Result<ExpressionPtr> product();
  [[nodiscard]] Result<ExpressionPtr> power();
  [[nodiscard]] Result<ExpressionPtr> unary(bool with_filters);
  [[nodiscard]] Result<ExpressionPtr> primary();
  [[nodiscard]] Result<ExpressionPtr> name_or_constant();
  [[nodiscard]] Result<ExpressionPtr> string_literal();
  [[nodiscard]] Result<ExpressionPtr> parenthesized();
  [[nodiscard]] Result<ExpressionPtr> list_literal();
  [[nodiscard]] Result<ExpressionPtr> dict_literal();
  [[nodiscard]] Result<ExpressionPtr> postfix(ExpressionPtr operand);
  [[nodiscard]] Result<ExpressionPtr> attribute(ExpressionPtr object);
  [[nodiscard]] Result<ExpressionPtr> subscript(ExpressionPtr object);
  [[nodiscard]] Result<ExpressionPtr> slice_part();
  [[nodiscard]] Result<ExpressionPtr> call(ExpressionPtr callee);
  [[nodiscard]] Result<CallArguments> call_arguments();
  [[nodiscard]] Result<ExpressionPtr> filters_and_tests(ExpressionPtr operand);
  [[nodiscard]] Result<ExpressionPtr> filter(ExpressionPtr operand);
  [[nodiscard]] Result<ExpressionPtr> test(ExpressionPtr operand);
  // map('upper'), select('defined') and their like name a filter or test: it must be known, too.
  [[nodiscard]] Status check_named_builtin(const std::string& filter,
                                           const CallArguments& arguments) const;

  [[nodiscard]] Node make(Expression::Kind kind) const;
  // Takes over the depth of the operands.
  // Errors: kInvalidArgument  too deep
  [[nodiscard]] Result<ExpressionPtr> finish(Node node) const;
  template <typename Operand>
  [[nodiscard]] Result<ExpressionPtr> left_associative(
      Operand operand, std::initializer_list<std::pair<std::string_view, Operator>> operators);

  TokenStream& stream_;
  const std::set<std::string>& macros_;
};

}  // namespace phalanx::jinja
