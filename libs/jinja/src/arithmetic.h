// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "phalanx/base/result.h"
#include "phalanx/jinja/value.h"

#include "ast.h"

namespace phalanx::jinja {

// + - * / // % ** of two numbers.
// Errors: kInvalidArgument  a division by zero, an integer past 64 bits

[[nodiscard]] Result<Value> integer_operation(Operator op, std::int64_t left, std::int64_t right);
[[nodiscard]] Result<Value> float_operation(Operator op, double left, double right);

// That of an integer past 64 bits.
[[nodiscard]] Error too_large();

}  // namespace phalanx::jinja
