// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/result.h"

#include "ast.h"
#include "lexer.h"

namespace phalanx::jinja {

// The tokens of a template and how far they are read.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  [[nodiscard]] const Token& current() const { return tokens_[position_]; }
  [[nodiscard]] const Token& ahead() const {
    return tokens_[position_ + 1 < tokens_.size() ? position_ + 1 : position_];
  }
  [[nodiscard]] bool at(Token::Kind kind) const { return current().kind == kind; }
  [[nodiscard]] bool at_name(std::string_view name) const { return current().is_name(name); }
  [[nodiscard]] bool at_operator(std::string_view op) const { return current().is_operator(op); }
  [[nodiscard]] std::size_t line() const { return current().line; }

  void next() {
    if (position_ + 1 < tokens_.size()) {
      ++position_;
    }
  }
  bool skip_name(std::string_view name) { return skip_if(at_name(name)); }
  bool skip_operator(std::string_view op) { return skip_if(at_operator(op)); }

  [[nodiscard]] Error fail(std::string_view message) const {
    return invalid_argument(at_line(line(), message));
  }
  [[nodiscard]] Error unsupported(std::string_view what) const {
    return unimplemented(at_line(line(), std::string(what) + " is not supported"));
  }
  // The current token, as messages name it.
  [[nodiscard]] std::string described() const;

  Status expect(Token::Kind kind, std::string_view name) {
    return skip_if(at(kind)) ? ok() : Status(unexpected(name));
  }
  Status expect_operator(std::string_view op) {
    return skip_operator(op) ? ok() : Status(unexpected("\"" + std::string(op) + "\""));
  }
  [[nodiscard]] Error unexpected(std::string_view wanted) const {
    return fail("expected " + std::string(wanted) + ", found " + described());
  }
  Result<std::string> expect_name() {
    if (!at(Token::Kind::kName)) {
      return unexpected("a name");
    }
    std::string name = current().text;
    next();
    return name;
  }

  // One level of recursion of the parser, for its own scope.
  class Level {
   public:
    explicit Level(TokenStream& stream) : stream_(stream) { ++stream_.depth_; }
    ~Level() { --stream_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

    // Errors: kInvalidArgument  nested deeper than kMaxSyntaxDepth
    [[nodiscard]] Status check() const {
      return stream_.depth_ <= kMaxSyntaxDepth
                 ? ok()
                 : Status(stream_.fail("nested deeper than " + std::to_string(kMaxSyntaxDepth)));
    }

   private:
    TokenStream& stream_;
  };

 private:
  bool skip_if(bool matches) {
    if (matches) {
      next();
    }
    return matches;
  }

  std::vector<Token> tokens_;
  std::size_t position_ = 0;
  std::size_t depth_ = 0;
};

}  // namespace phalanx::jinja
