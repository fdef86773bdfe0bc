// SPDX-License-Identifier: Apache-2.0
#include "arithmetic.h"

#include <cmath>

namespace phalanx::jinja {
namespace {

// Python rounds the quotient down, C++ towards zero.
std::int64_t floor_divide(std::int64_t left, std::int64_t right) {
  const std::int64_t quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

Result<Value> power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0 && base == 0) {
    return invalid_argument("division by zero");
  }
  if (exponent < 0) {
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  std::int64_t result = 1;
  // Past 64 steps every base but -1, 0 and 1 has overflowed; those three have a period of two.
  const std::int64_t steps = exponent > 64 ? 64 + exponent % 2 : exponent;
  for (std::int64_t i = 0; i < steps; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) {
      return too_large();
    }
  }
  return Value(result);
}

}  // namespace

Error too_large() {
  return invalid_argument("an integer does not fit 64 bits");
}

Result<Value> integer_operation(Operator op, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case Operator::kAdd:
      overflow = __builtin_add_overflow(left, right, &result);
      break;
    case Operator::kSubtract:
      overflow = __builtin_sub_overflow(left, right, &result);
      break;
    case Operator::kMultiply:
      overflow = __builtin_mul_overflow(left, right, &result);
      break;
    case Operator::kPower:
      return power(left, right);
    default:
      if (right == 0) {
        return invalid_argument("division by zero");
      }
      if (op == Operator::kDivide) {
        return Value(static_cast<double>(left) / static_cast<double>(right));
      }
      if (right == -1) {  // the one divisor that can overflow
        overflow = op == Operator::kFloorDivide && __builtin_sub_overflow(0, left, &result);
      } else {
        const std::int64_t quotient = floor_divide(left, right);
        result = op == Operator::kFloorDivide ? quotient : left - quotient * right;
      }
  }
  return overflow ? Result<Value>(too_large()) : Result<Value>(Value(result));
}

Result<Value> float_operation(Operator op, double left, double right) {
  switch (op) {
    case Operator::kAdd:
      return Value(left + right);
    case Operator::kSubtract:
      return Value(left - right);
    case Operator::kMultiply:
      return Value(left * right);
    case Operator::kPower:
      if (left == 0 && right < 0) {
        return invalid_argument("division by zero");
      }
      return Value(std::pow(left, right));
    default:
      break;
  }
  if (right == 0) {
    return invalid_argument("division by zero");
  }
  if (op == Operator::kDivide) {
    return Value(left / right);
  }
  const double remainder = std::fmod(left, right);
  const bool other_sign = remainder != 0 && (remainder < 0) != (right < 0);
  if (op == Operator::kModulo) {
    return Value(other_sign ? remainder + right : remainder);
  }
  // Almost a whole number; adding a half first would round it when it is large.
  const double quotient = (left - remainder) / right - (other_sign ? 1 : 0);
  const double whole = std::floor(quotient);
  return Value(quotient - whole > 0.5 ? whole + 1 : whole);
}

}  // namespace phalanx::jinja
