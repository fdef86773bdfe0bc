// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "builtins.h"
#include "expression_parser.h"

namespace phalanx::jinja {
namespace {

using Kind = Expression::Kind;

bool begins_primary(const Token& token) {
  switch (token.kind) {
    case Token::Kind::kName:
      return token.text != "else" && token.text != "or" && token.text != "and";
    case Token::Kind::kString:
    case Token::Kind::kInteger:
    case Token::Kind::kFloat:
      return true;
    default:
      return token.is_operator("[") || token.is_operator("{");
  }
}

std::string named(std::string_view kind, std::string_view name) {
  return std::string(kind) + " \"" + std::string(name) + "\"";
}

}  // namespace

Result<ExpressionPtr> ExpressionParser::postfix(ExpressionPtr operand) {
  while (true) {
    if (stream_.at_operator(".")) {
      PHALANX_TRY(operand, attribute(std::move(operand)));
    } else if (stream_.at_operator("[")) {
      PHALANX_TRY(operand, subscript(std::move(operand)));
    } else if (stream_.at_operator("(")) {
      PHALANX_TRY(operand, call(std::move(operand)));
    } else {
      return operand;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::attribute(ExpressionPtr object) {
  stream_.next();
  if (stream_.at(Token::Kind::kInteger)) {
    Node node = make(Kind::kItem);
    PHALANX_TRY(ExpressionPtr index, primary());
    node->operands.push_back(std::move(object));
    node->operands.push_back(std::move(index));
    return finish(std::move(node));
  }
  Node node = make(Kind::kAttribute);
  PHALANX_TRY(node->name, stream_.expect_name());
  node->operands.push_back(std::move(object));
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::slice_part() {
  if (stream_.at_operator(":") || stream_.at_operator("]")) {
    return ExpressionPtr();
  }
  return expression();
}

Result<ExpressionPtr> ExpressionParser::subscript(ExpressionPtr object) {
  Node node = make(Kind::kItem);
  stream_.next();
  node->operands.push_back(std::move(object));
  PHALANX_TRY(ExpressionPtr first, slice_part());
  if (!stream_.at_operator(":")) {
    if (first == nullptr) {
      return stream_.unexpected("an index");
    }
    if (stream_.at_operator(",")) {
      return stream_.unsupported("an index of several parts");
    }
    node->operands.push_back(std::move(first));
    PHALANX_RETURN_IF_ERROR(stream_.expect_operator("]"));
    return finish(std::move(node));
  }
  node->kind = Kind::kSlice;
  stream_.next();
  PHALANX_TRY(ExpressionPtr stop, slice_part());
  ExpressionPtr step;
  if (stream_.skip_operator(":")) {
    PHALANX_TRY(step, slice_part());
  }
  PHALANX_RETURN_IF_ERROR(stream_.expect_operator("]"));
  node->operands.push_back(std::move(first));
  node->operands.push_back(std::move(stop));
  node->operands.push_back(std::move(step));
  return finish(std::move(node));
}

Result<ExpressionParser::CallArguments> ExpressionParser::call_arguments() {
  PHALANX_RETURN_IF_ERROR(stream_.expect_operator("("));
  CallArguments arguments;
  bool first = true;
  while (!stream_.at_operator(")")) {
    if (!first) {
      PHALANX_RETURN_IF_ERROR(stream_.expect_operator(","));
      if (stream_.at_operator(")")) {
        break;
      }
    }
    first = false;
    if (stream_.at_operator("*") || stream_.at_operator("**")) {
      return stream_.unsupported("an argument with *");
    }
    if (stream_.at(Token::Kind::kName) && stream_.ahead().is_operator("=")) {
      PHALANX_TRY(std::string name, stream_.expect_name());
      stream_.next();
      PHALANX_TRY(ExpressionPtr value, expression());
      arguments.named.emplace_back(std::move(name), std::move(value));
      continue;
    }
    if (!arguments.named.empty()) {
      return stream_.fail("a positional argument stands behind a named one");
    }
    PHALANX_TRY(ExpressionPtr value, expression());
    arguments.positional.push_back(std::move(value));
  }
  stream_.next();
  return arguments;
}

Result<ExpressionPtr> ExpressionParser::call(ExpressionPtr callee) {
  Node node = make(Kind::kCall);
  if (callee->kind == Kind::kName) {
    node->builtin = macros_.contains(callee->name) ? nullptr : find_function(callee->name);
    if (node->builtin != nullptr) {
      node->kind = Kind::kBuiltin;
    } else if (!macros_.contains(callee->name)) {
      return stream_.unsupported(named("function", callee->name));
    }
  } else if (callee->kind == Kind::kAttribute) {
    if (!is_method(callee->name)) {
      return stream_.unsupported(named("method", callee->name));
    }
  } else {
    return stream_.unsupported("a call of anything but a function, macro or method");
  }
  PHALANX_TRY(CallArguments arguments, call_arguments());
  if (node->kind == Kind::kCall) {
    node->operands.push_back(std::move(callee));
  }
  std::move(
      arguments.positional.begin(), arguments.positional.end(), std::back_inserter(node->operands));
  node->named = std::move(arguments.named);
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::filters_and_tests(ExpressionPtr operand) {
  while (true) {
    if (stream_.skip_operator("|")) {
      PHALANX_TRY(operand, filter(std::move(operand)));
    } else if (stream_.skip_name("is")) {
      PHALANX_TRY(operand, test(std::move(operand)));
    } else if (stream_.at_operator("(")) {
      return stream_.unsupported("a call of the result of a filter or test");
    } else {
      return operand;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::filter_chain(ExpressionPtr input) {
  PHALANX_TRY(input, filter(std::move(input)));
  while (stream_.skip_operator("|")) {
    PHALANX_TRY(input, filter(std::move(input)));
  }
  return input;
}

Result<ExpressionPtr> ExpressionParser::filter(ExpressionPtr operand) {
  Node node = make(Kind::kBuiltin);
  PHALANX_TRY(const std::string name, stream_.expect_name());
  node->builtin = find_filter(name);
  if (node->builtin == nullptr) {
    return stream_.unsupported(named("filter", name));
  }
  CallArguments arguments;
  if (stream_.at_operator("(")) {
    PHALANX_TRY(arguments, call_arguments());
  }
  PHALANX_RETURN_IF_ERROR(check_named_builtin(name, arguments));
  node->operands.push_back(std::move(operand));
  std::move(
      arguments.positional.begin(), arguments.positional.end(), std::back_inserter(node->operands));
  node->named = std::move(arguments.named);
  return finish(std::move(node));
}

Status ExpressionParser::check_named_builtin(const std::string& filter,
                                             const CallArguments& arguments) const {
  // Which argument names a filter or test.
  constexpr std::array<std::pair<std::string_view, std::size_t>, 5> kNaming{
      {{"map", 0}, {"select", 0}, {"reject", 0}, {"selectattr", 1}, {"rejectattr", 1}}};
  const auto* const naming = std::find_if(
      kNaming.begin(), kNaming.end(), [&](const auto& entry) { return entry.first == filter; });
  if (naming == kNaming.end() || arguments.positional.size() <= naming->second) {
    return ok();
  }
  const MarkedText* const name = arguments.positional[naming->second]->literal.as_text();
  if (name == nullptr) {
    return stream_.unsupported(named("filter", filter) + " with a computed name");
  }
  const bool known =
      filter == "map" ? find_filter(name->view()) != nullptr : find_test(name->view()) != nullptr;
  return known ? ok()
               : Status(
                     stream_.unsupported(named(filter == "map" ? "filter" : "test", name->view())));
}

Result<ExpressionPtr> ExpressionParser::test(ExpressionPtr operand) {
  const bool negated = stream_.skip_name("not");
  Node node = make(Kind::kBuiltin);
  PHALANX_TRY(const std::string name, stream_.expect_name());
  node->builtin = find_test(name);
  if (node->builtin == nullptr) {
    return stream_.unsupported(named("test", name));
  }
  node->operands.push_back(std::move(operand));
  if (stream_.at_operator("(")) {
    PHALANX_TRY(CallArguments arguments, call_arguments());
    std::move(arguments.positional.begin(),
              arguments.positional.end(),
              std::back_inserter(node->operands));
    node->named = std::move(arguments.named);
  } else if (begins_primary(stream_.current())) {
    if (stream_.at_name("is")) {
      return stream_.fail("tests cannot be chained with \"is\"");
    }
    if (stream_.at_name("if")) {
      // So Jinja reads it, and fails once the place is reached.
      return stream_.unsupported("\"if\" as the argument of a test (put the test in parentheses)");
    }
    PHALANX_TRY(ExpressionPtr argument, primary());
    PHALANX_TRY(argument, postfix(std::move(argument)));
    node->operands.push_back(std::move(argument));
  }
  PHALANX_TRY(ExpressionPtr result, finish(std::move(node)));
  if (!negated) {
    return result;
  }
  Node inverse = make(Kind::kNot);
  inverse->operands.push_back(std::move(result));
  return finish(std::move(inverse));
}

}  // namespace phalanx::jinja
