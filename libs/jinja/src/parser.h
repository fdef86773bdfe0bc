// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "phalanx/base/result.h"

#include "ast.h"

namespace phalanx::jinja {

// The syntax tree of a template. Every name that must be known (tags, filters, tests, functions,
// methods, macros) is looked up here.
//
// Errors: kInvalidArgument  syntax, with the line
//         kUnimplemented    a construct or name that is not supported, with the line
[[nodiscard]] Result<Body> parse_template(std::string_view source);

}  // namespace phalanx::jinja
