// SPDX-License-Identifier: Apache-2.0
#include "expression_parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include "builtins.h"

namespace phalanx::jinja {
namespace {

using Kind = Expression::Kind;

constexpr std::array<std::pair<std::string_view, Operator>, 6> kComparisons{
    {{"==", Operator::kEqual},
     {"!=", Operator::kNotEqual},
     {"<", Operator::kLess},
     {"<=", Operator::kLessEqual},
     {">", Operator::kGreater},
     {">=", Operator::kGreaterEqual}}};

}  // namespace

ExpressionParser::Node ExpressionParser::make(Kind kind) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = stream_.line();
  return node;
}

Result<ExpressionPtr> ExpressionParser::finish(Node node) const {
  for (const ExpressionPtr& operand : node->operands) {
    node->depth = std::max(node->depth, operand == nullptr ? 1 : operand->depth + 1);
  }
  for (const auto& [name, value] : node->named) {
    node->depth = std::max(node->depth, value->depth + 1);
  }
  if (node->depth > kMaxSyntaxDepth) {
    return stream_.fail("an expression nests deeper than " + std::to_string(kMaxSyntaxDepth));
  }
  return ExpressionPtr(std::move(node));
}

template <typename Operand>
Result<ExpressionPtr> ExpressionParser::left_associative(
    Operand operand, std::initializer_list<std::pair<std::string_view, Operator>> operators) {
  PHALANX_TRY(ExpressionPtr left, operand());
  while (true) {
    const auto* const found =
        std::find_if(operators.begin(), operators.end(), [&](const auto& candidate) {
          return stream_.at_operator(candidate.first);
        });
    if (found == operators.end()) {
      return left;
    }
    Node node = make(Kind::kBinary);
    stream_.next();
    PHALANX_TRY(ExpressionPtr right, operand());
    node->operators.push_back(found->second);
    if (found->second == Operator::kModulo && left->literal.as_text() != nullptr) {
      return stream_.unsupported("formatting with %");
    }
    node->operands.push_back(std::move(left));
    node->operands.push_back(std::move(right));
    PHALANX_TRY(left, finish(std::move(node)));
  }
}

Result<ExpressionPtr> ExpressionParser::expression(bool with_condition) {
  const TokenStream::Level level(stream_);
  PHALANX_RETURN_IF_ERROR(level.check());
  return with_condition ? conditional() : disjunction();
}

Result<ExpressionPtr> ExpressionParser::tuple_or_expression(bool with_condition) {
  Node node = make(Kind::kTuple);
  PHALANX_TRY(ExpressionPtr first, expression(with_condition));
  if (!stream_.at_operator(",")) {
    return first;
  }
  node->operands.push_back(std::move(first));
  while (stream_.skip_operator(",")) {
    if (stream_.at(Token::Kind::kOutputEnd) || stream_.at(Token::Kind::kBlockEnd) ||
        stream_.at_operator(")") || stream_.at_name("recursive")) {
      break;
    }
    PHALANX_TRY(ExpressionPtr item, expression(with_condition));
    node->operands.push_back(std::move(item));
  }
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::conditional() {
  PHALANX_TRY(ExpressionPtr value, disjunction());
  while (stream_.at_name("if")) {
    Node node = make(Kind::kConditional);
    stream_.next();
    PHALANX_TRY(ExpressionPtr condition, disjunction());
    ExpressionPtr otherwise;
    if (stream_.skip_name("else")) {
      PHALANX_TRY(otherwise, expression());
    }
    node->operands.push_back(std::move(condition));
    node->operands.push_back(std::move(value));
    node->operands.push_back(std::move(otherwise));
    PHALANX_TRY(value, finish(std::move(node)));
  }
  return value;
}

Result<ExpressionPtr> ExpressionParser::disjunction() {
  PHALANX_TRY(ExpressionPtr left, conjunction());
  while (stream_.at_name("or")) {
    Node node = make(Kind::kOr);
    stream_.next();
    PHALANX_TRY(ExpressionPtr right, conjunction());
    node->operands.push_back(std::move(left));
    node->operands.push_back(std::move(right));
    PHALANX_TRY(left, finish(std::move(node)));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::conjunction() {
  PHALANX_TRY(ExpressionPtr left, negation());
  while (stream_.at_name("and")) {
    Node node = make(Kind::kAnd);
    stream_.next();
    PHALANX_TRY(ExpressionPtr right, negation());
    node->operands.push_back(std::move(left));
    node->operands.push_back(std::move(right));
    PHALANX_TRY(left, finish(std::move(node)));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::negation() {
  if (!stream_.at_name("not")) {
    return comparison();
  }
  const TokenStream::Level level(stream_);
  PHALANX_RETURN_IF_ERROR(level.check());
  Node node = make(Kind::kNot);
  stream_.next();
  PHALANX_TRY(ExpressionPtr operand, negation());
  node->operands.push_back(std::move(operand));
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::comparison() {
  PHALANX_TRY(ExpressionPtr first, sum());
  Node node = make(Kind::kComparison);
  node->operands.push_back(std::move(first));
  while (true) {
    const auto* const found =
        std::find_if(kComparisons.begin(), kComparisons.end(), [&](const auto& candidate) {
          return stream_.at_operator(candidate.first);
        });
    if (found != kComparisons.end()) {
      node->operators.push_back(found->second);
      stream_.next();
    } else if (stream_.skip_name("in")) {
      node->operators.push_back(Operator::kIn);
    } else if (stream_.at_name("not") && stream_.ahead().is_name("in")) {
      node->operators.push_back(Operator::kNotIn);
      stream_.next();
      stream_.next();
    } else {
      break;
    }
    PHALANX_TRY(ExpressionPtr operand, sum());
    node->operands.push_back(std::move(operand));
  }
  if (node->operators.empty()) {
    return std::move(node->operands.front());
  }
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::sum() {
  return left_associative([this] { return concatenation(); },
                          {{"+", Operator::kAdd}, {"-", Operator::kSubtract}});
}

Result<ExpressionPtr> ExpressionParser::concatenation() {
  PHALANX_TRY(ExpressionPtr first, product());
  if (!stream_.at_operator("~")) {
    return first;
  }
  Node node = make(Kind::kConcat);
  node->operands.push_back(std::move(first));
  while (stream_.skip_operator("~")) {
    PHALANX_TRY(ExpressionPtr operand, product());
    node->operands.push_back(std::move(operand));
  }
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::product() {
  return left_associative([this] { return power(); },
                          {{"*", Operator::kMultiply},
                           {"//", Operator::kFloorDivide},
                           {"/", Operator::kDivide},
                           {"%", Operator::kModulo}});
}

Result<ExpressionPtr> ExpressionParser::power() {
  return left_associative([this] { return unary(/*with_filters=*/true); },
                          {{"**", Operator::kPower}});
}

Result<ExpressionPtr> ExpressionParser::unary(bool with_filters) {
  const TokenStream::Level level(stream_);
  PHALANX_RETURN_IF_ERROR(level.check());
  ExpressionPtr operand;
  if (stream_.at_operator("-") || stream_.at_operator("+")) {
    Node node = make(Kind::kUnary);
    node->operators.push_back(stream_.at_operator("-") ? Operator::kNegate : Operator::kPlus);
    stream_.next();
    PHALANX_TRY(ExpressionPtr inner, unary(/*with_filters=*/false));
    node->operands.push_back(std::move(inner));
    PHALANX_TRY(operand, finish(std::move(node)));
  } else {
    PHALANX_TRY(operand, primary());
  }
  PHALANX_TRY(operand, postfix(std::move(operand)));
  return with_filters ? filters_and_tests(std::move(operand))
                      : Result<ExpressionPtr>(std::move(operand));
}

Result<ExpressionPtr> ExpressionParser::primary() {
  switch (stream_.current().kind) {
    case Token::Kind::kName:
      return name_or_constant();
    case Token::Kind::kString:
      return string_literal();
    case Token::Kind::kInteger: {
      Node node = make(Kind::kLiteral);
      node->literal = Value(stream_.current().integer);
      stream_.next();
      return finish(std::move(node));
    }
    case Token::Kind::kFloat: {
      Node node = make(Kind::kLiteral);
      node->literal = Value(stream_.current().real);
      stream_.next();
      return finish(std::move(node));
    }
    default:
      break;
  }
  if (stream_.at_operator("(")) {
    return parenthesized();
  }
  if (stream_.at_operator("[")) {
    return list_literal();
  }
  if (stream_.at_operator("{")) {
    return dict_literal();
  }
  return stream_.unexpected("an expression");
}

Result<ExpressionPtr> ExpressionParser::name_or_constant() {
  const std::string& name = stream_.current().text;
  Node node = make(Kind::kLiteral);
  if (name == "true" || name == "True") {
    node->literal = Value(true);
  } else if (name == "false" || name == "False") {
    node->literal = Value(false);
  } else if (name != "none" && name != "None") {
    node->kind = Kind::kName;
    node->name = name;
  }
  stream_.next();
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::string_literal() {
  Node node = make(Kind::kLiteral);
  std::string text;
  while (stream_.at(Token::Kind::kString)) {
    text.append(stream_.current().text);
    stream_.next();
  }
  node->literal = Value::literal(std::move(text));
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::parenthesized() {
  Node empty = make(Kind::kTuple);
  stream_.next();
  if (stream_.skip_operator(")")) {
    return finish(std::move(empty));
  }
  PHALANX_TRY(ExpressionPtr inner, tuple_or_expression());
  PHALANX_RETURN_IF_ERROR(stream_.expect_operator(")"));
  return inner;
}

Result<ExpressionPtr> ExpressionParser::list_literal() {
  Node node = make(Kind::kList);
  stream_.next();
  while (!stream_.at_operator("]")) {
    if (!node->operands.empty()) {
      PHALANX_RETURN_IF_ERROR(stream_.expect_operator(","));
      if (stream_.at_operator("]")) {
        break;
      }
    }
    PHALANX_TRY(ExpressionPtr item, expression());
    node->operands.push_back(std::move(item));
  }
  stream_.next();
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::dict_literal() {
  Node node = make(Kind::kDict);
  stream_.next();
  while (!stream_.at_operator("}")) {
    if (!node->operands.empty()) {
      PHALANX_RETURN_IF_ERROR(stream_.expect_operator(","));
      if (stream_.at_operator("}")) {
        break;
      }
    }
    PHALANX_TRY(ExpressionPtr key, expression());
    if (key->kind == Kind::kLiteral && key->literal.as_text() == nullptr) {
      return stream_.unsupported("in a dict, a key that is a constant other than a string");
    }
    PHALANX_RETURN_IF_ERROR(stream_.expect_operator(":"));
    PHALANX_TRY(ExpressionPtr value, expression());
    node->operands.push_back(std::move(key));
    node->operands.push_back(std::move(value));
  }
  stream_.next();
  return finish(std::move(node));
}

}  // namespace phalanx::jinja
