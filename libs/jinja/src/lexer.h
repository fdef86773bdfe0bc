// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/result.h"

namespace phalanx::jinja {

struct Token {
  enum class Kind {
    kText,         // template text, white space control applied
    kOutputBegin,  // {{
    kOutputEnd,    // }}
    kBlockBegin,   // {%
    kBlockEnd,     // %}
    kName,
    kString,    // text: the value
    kInteger,   // integer
    kFloat,     // real
    kOperator,  // text: the operator
    kEnd,
  };

  Kind kind = Kind::kEnd;
  std::string text;
  std::int64_t integer = 0;
  double real = 0;
  std::size_t line = 1;

  [[nodiscard]] bool is_name(std::string_view name) const {
    return kind == Kind::kName && text == name;
  }
  [[nodiscard]] bool is_operator(std::string_view op) const {
    return kind == Kind::kOperator && text == op;
  }
};

// Cuts a template into tokens with trim_blocks and lstrip_blocks on; the last one is kEnd.
//
// Errors: kInvalidArgument  something that is no token, an unclosed tag, a bad literal, with line
[[nodiscard]] Result<std::vector<Token>> tokenize(std::string_view source);

// "line 3: message"
[[nodiscard]] std::string at_line(std::size_t line, std::string_view message);

}  // namespace phalanx::jinja
