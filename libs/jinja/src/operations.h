// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "phalanx/base/result.h"
#include "phalanx/jinja/value.h"

#include "ast.h"
#include "interpreter.h"
#include "value_kinds.h"

namespace phalanx::jinja {

// Python's operators.
// Errors: kInvalidArgument  the operands do not fit, an undefined operand, a division by zero, an
// integer past 64 bits; kResourceExhausted  a result past the limits.

[[nodiscard]] Result<Value> apply_unary(Operator op, const Value& operand);
[[nodiscard]] Result<Value> apply_binary(Interpreter& interpreter,
                                         Operator op,
                                         const Value& left,
                                         const Value& right);
[[nodiscard]] Result<bool> apply_comparison(Operator op, const Value& left, const Value& right);

// object[start:stop:step]
[[nodiscard]] Result<Value> slice_of(Interpreter& interpreter,
                                     const Value& object,
                                     const Value& start,
                                     const Value& stop,
                                     const Value& step);

// `needle in haystack`
[[nodiscard]] Result<bool> contains(const Value& haystack, const Value& needle);

}  // namespace phalanx::jinja
