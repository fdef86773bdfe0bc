// SPDX-License-Identifier: Apache-2.0
#include "parser.h"

#include <array>
#include <initializer_list>
#include <set>
#include <utility>

#include "expression_parser.h"
#include "token_stream.h"

namespace phalanx::jinja {
namespace {

using StatementKind = Statement::Kind;
using Node = std::unique_ptr<Statement>;

// The names of all macros, known before parsing: a call may stand before the definition.
std::set<std::string> macro_names(const std::vector<Token>& tokens) {
  std::set<std::string> names;
  for (std::size_t i = 0; i + 2 < tokens.size(); ++i) {
    if (tokens[i].kind == Token::Kind::kBlockBegin && tokens[i + 1].is_name("macro") &&
        tokens[i + 2].kind == Token::Kind::kName) {
      names.insert(tokens[i + 2].text);
    }
  }
  return names;
}

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens)
      : macros_(macro_names(tokens)), stream_(std::move(tokens)), expressions_(stream_, macros_) {}

  Result<Body> run() {
    PHALANX_TRY(Body body, statements({}));
    if (!stream_.at(Token::Kind::kEnd)) {
      return stream_.unexpected("the end of the template");
    }
    return body;
  }

 private:
  [[nodiscard]] Node make(StatementKind kind) const {
    auto node = std::make_unique<Statement>();
    node->kind = kind;
    node->line = stream_.line();
    return node;
  }

  [[nodiscard]] bool at_any(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names) {
      if (stream_.at_name(name)) {
        return true;
      }
    }
    return false;
  }

  // Statements up to a tag of `ends`, whose name is then current; up to the end of the template if
  // there are none.
  Result<Body> statements(std::initializer_list<std::string_view> ends) {
    const TokenStream::Level level(stream_);
    PHALANX_RETURN_IF_ERROR(level.check());
    Body body;
    while (!stream_.at(Token::Kind::kEnd)) {
      if (stream_.at(Token::Kind::kText)) {
        Node node = make(StatementKind::kText);
        node->text = stream_.current().text;
        stream_.next();
        body.push_back(std::move(node));
        continue;
      }
      if (stream_.at(Token::Kind::kOutputBegin)) {
        Node node = make(StatementKind::kOutput);
        stream_.next();
        PHALANX_TRY(node->expression, expressions_.tuple_or_expression());
        PHALANX_RETURN_IF_ERROR(stream_.expect(Token::Kind::kOutputEnd, "\"}}\""));
        body.push_back(std::move(node));
        continue;
      }
      PHALANX_RETURN_IF_ERROR(stream_.expect(Token::Kind::kBlockBegin, "a tag"));
      if (at_any(ends)) {
        return body;
      }
      PHALANX_TRY(StatementPtr statement, tag());
      body.push_back(std::move(statement));
      PHALANX_RETURN_IF_ERROR(end_of_tag());
    }
    if (ends.size() > 0) {
      return stream_.fail("the template ends before \"" + std::string(*ends.begin()) + "\"");
    }
    return body;
  }

  Status end_of_tag() { return stream_.expect(Token::Kind::kBlockEnd, "\"%}\""); }

  // The body of a tag that ends with `end`; moves behind the end's name.
  Result<Body> body_until(std::string_view end) {
    PHALANX_RETURN_IF_ERROR(end_of_tag());
    PHALANX_TRY(Body body, statements({end}));
    stream_.next();
    return body;
  }

  Result<StatementPtr> tag() {
    using Parse = Result<StatementPtr> (Parser::*)();
    static constexpr std::array<std::pair<std::string_view, Parse>, 9> kTags{
        {{"if", &Parser::if_tag},
         {"for", &Parser::for_tag},
         {"set", &Parser::set_tag},
         {"macro", &Parser::macro_tag},
         {"with", &Parser::with_tag},
         {"filter", &Parser::filter_tag},
         {"generation", &Parser::generation_tag},
         {"break", &Parser::break_tag},
         {"continue", &Parser::continue_tag}}};
    for (const auto& [name, parse] : kTags) {
      if (stream_.at_name(name)) {
        return (this->*parse)();
      }
    }
    if (!stream_.at(Token::Kind::kName)) {
      return stream_.unexpected("the name of a tag");
    }
    return stream_.unsupported("tag \"" + stream_.current().text + "\"");
  }

  Result<StatementPtr> if_tag() {
    Node node = make(StatementKind::kIf);
    do {
      stream_.next();
      PHALANX_TRY(ExpressionPtr condition, expressions_.tuple_or_expression(false));
      PHALANX_RETURN_IF_ERROR(end_of_tag());
      PHALANX_TRY(Body body, statements({"endif", "elif", "else"}));
      node->branches.emplace_back(std::move(condition), std::move(body));
    } while (stream_.at_name("elif"));
    if (stream_.skip_name("else")) {
      PHALANX_TRY(node->else_body, body_until("endif"));
    } else {
      stream_.next();
    }
    return StatementPtr(std::move(node));
  }

  Result<StatementPtr> for_tag() {
    Node node = make(StatementKind::kFor);
    stream_.next();
    PHALANX_TRY(node->target, target(/*with_namespace=*/false));
    if (!stream_.skip_name("in")) {
      return stream_.unexpected("\"in\"");
    }
    PHALANX_TRY(node->expression, expressions_.tuple_or_expression(false));
    if (stream_.skip_name("if")) {
      PHALANX_TRY(node->condition, expressions_.expression());
    }
    if (stream_.at_name("recursive")) {
      return stream_.unsupported("a recursive loop");
    }
    PHALANX_RETURN_IF_ERROR(end_of_tag());
    ++loops_;
    PHALANX_TRY(node->body, statements({"endfor", "else"}));
    --loops_;
    if (stream_.skip_name("else")) {
      PHALANX_TRY(node->else_body, body_until("endfor"));
    } else {
      stream_.next();
    }
    return StatementPtr(std::move(node));
  }

  Result<StatementPtr> set_tag() {
    Node node = make(StatementKind::kSet);
    stream_.next();
    PHALANX_TRY(node->target, target(/*with_namespace=*/true));
    if (stream_.skip_operator("=")) {
      PHALANX_TRY(node->expression, expressions_.tuple_or_expression());
      return StatementPtr(std::move(node));
    }
    node->kind = StatementKind::kSetBlock;
    if (stream_.skip_operator("|")) {
      PHALANX_TRY(node->filters, filters_of_body());
    }
    PHALANX_TRY(node->body, outside_loops("endset"));
    return StatementPtr(std::move(node));
  }

  Result<StatementPtr> filter_tag() {
    Node node = make(StatementKind::kFilter);
    stream_.next();
    PHALANX_TRY(node->filters, filters_of_body());
    PHALANX_TRY(node->body, outside_loops("endfilter"));
    return StatementPtr(std::move(node));
  }

  // A body from which break and continue do not reach the loop outside.
  Result<Body> outside_loops(std::string_view end) {
    const std::size_t loops = std::exchange(loops_, 0);
    PHALANX_TRY(Body body, body_until(end));
    loops_ = loops;
    return body;
  }

  Result<ExpressionPtr> filters_of_body() {
    auto input = std::make_unique<Expression>();
    input->kind = Expression::Kind::kName;
    input->line = stream_.line();
    input->name = kBodyName;
    return expressions_.filter_chain(std::move(input));
  }

  Result<StatementPtr> macro_tag() {
    Node node = make(StatementKind::kMacro);
    auto macro = std::make_unique<MacroDefinition>();
    stream_.next();
    PHALANX_TRY(macro->name, stream_.expect_name());
    PHALANX_RETURN_IF_ERROR(stream_.expect_operator("("));
    while (!stream_.at_operator(")")) {
      if (!macro->parameters.empty()) {
        PHALANX_RETURN_IF_ERROR(stream_.expect_operator(","));
      }
      PHALANX_TRY(std::string parameter, stream_.expect_name());
      macro->parameters.push_back(std::move(parameter));
      if (stream_.skip_operator("=")) {
        PHALANX_TRY(ExpressionPtr value, expressions_.expression());
        macro->defaults.push_back(std::move(value));
      } else if (!macro->defaults.empty()) {
        return stream_.fail("a parameter without a default stands behind one with a default");
      }
    }
    stream_.next();
    PHALANX_TRY(macro->body, outside_loops("endmacro"));
    node->macro = std::move(macro);
    return StatementPtr(std::move(node));
  }

  Result<StatementPtr> with_tag() {
    Node node = make(StatementKind::kWith);
    stream_.next();
    while (!stream_.at(Token::Kind::kBlockEnd)) {
      if (!node->assignments.empty()) {
        PHALANX_RETURN_IF_ERROR(stream_.expect_operator(","));
      }
      PHALANX_TRY(Target name, target(/*with_namespace=*/false));
      PHALANX_RETURN_IF_ERROR(stream_.expect_operator("="));
      PHALANX_TRY(ExpressionPtr value, expressions_.expression());
      node->assignments.emplace_back(std::move(name), std::move(value));
    }
    PHALANX_TRY(node->body, body_until("endwith"));
    return StatementPtr(std::move(node));
  }

  // Marks what the model would have produced; it only matters for training.
  Result<StatementPtr> generation_tag() {
    Node node = make(StatementKind::kScope);
    stream_.next();
    PHALANX_TRY(node->body, outside_loops("endgeneration"));
    return StatementPtr(std::move(node));
  }

  Result<StatementPtr> break_tag() { return loop_exit(StatementKind::kBreak); }
  Result<StatementPtr> continue_tag() { return loop_exit(StatementKind::kContinue); }

  Result<StatementPtr> loop_exit(StatementKind kind) {
    if (loops_ == 0) {
      return stream_.fail("\"" + stream_.current().text + "\" outside of a loop");
    }
    Node node = make(kind);
    stream_.next();
    return StatementPtr(std::move(node));
  }

  Result<Target> target(bool with_namespace) {
    Target result;
    const bool in_parentheses = stream_.skip_operator("(");
    PHALANX_TRY(std::string first, target_name());
    result.names.push_back(std::move(first));
    if (with_namespace && stream_.skip_operator(".")) {
      PHALANX_TRY(result.attribute, stream_.expect_name());
      return result;
    }
    while (stream_.skip_operator(",")) {
      result.is_tuple = true;
      if (!stream_.at(Token::Kind::kName) || stream_.at_name("in")) {
        break;
      }
      PHALANX_TRY(std::string name, target_name());
      result.names.push_back(std::move(name));
    }
    if (in_parentheses) {
      PHALANX_RETURN_IF_ERROR(stream_.expect_operator(")"));
    }
    return result;
  }

  Result<std::string> target_name() {
    for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
      if (stream_.at_name(constant)) {
        return stream_.fail("cannot assign to \"" + std::string(constant) + "\"");
      }
    }
    return stream_.expect_name();
  }

  std::set<std::string> macros_;
  TokenStream stream_;
  ExpressionParser expressions_;
  std::size_t loops_ = 0;  // loops around the current place, within the same body
};

}  // namespace

std::string TokenStream::described() const {
  switch (current().kind) {
    case Token::Kind::kEnd:
      return "the end of the template";
    case Token::Kind::kBlockEnd:
      return "\"%}\"";
    case Token::Kind::kOutputEnd:
      return "\"}}\"";
    default:
      return "\"" + current().text + "\"";
  }
}

Result<Body> parse_template(std::string_view source) {
  PHALANX_TRY(std::vector<Token> tokens, tokenize(source));
  return Parser(std::move(tokens)).run();
}

}  // namespace phalanx::jinja
