// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>
#include <utility>

#include <tl/expected.hpp>

#include "phalanx/base/error.h"

namespace phalanx {

// A value or an Error. A class and not an alias, because tl::expected is not [[nodiscard]]: a
// dropped error must not compile. Names follow std::expected, so that a later swap is mechanical.
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  // Both convert implicitly, for `return value;` and `return error;`.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(T value) : state_(std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Error error) : state_(tl::unexpect, std::move(error)) {}

  [[nodiscard]] bool has_value() const { return state_.has_value(); }
  explicit operator bool() const { return has_value(); }

  // Requires has_value().
  [[nodiscard]] T& value() & { return *state_; }
  [[nodiscard]] const T& value() const& { return *state_; }
  [[nodiscard]] T&& value() && { return std::move(*state_); }
  T& operator*() & { return *state_; }
  const T& operator*() const& { return *state_; }
  T&& operator*() && { return std::move(*state_); }
  T* operator->() { return &*state_; }
  const T* operator->() const { return &*state_; }

  // Requires !has_value().
  [[nodiscard]] Error& error() & { return state_.error(); }
  [[nodiscard]] const Error& error() const& { return state_.error(); }
  [[nodiscard]] Error&& error() && { return std::move(state_.error()); }

  [[nodiscard]] T value_or(T fallback) && {
    return has_value() ? std::move(*state_) : std::move(fallback);
  }

 private:
  tl::expected<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  // Converts implicitly, for `return error;`.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Error error) : state_(tl::unexpect, std::move(error)) {}

  [[nodiscard]] bool has_value() const { return state_.has_value(); }
  explicit operator bool() const { return has_value(); }
  [[nodiscard]] Error& error() & { return state_.error(); }
  [[nodiscard]] const Error& error() const& { return state_.error(); }
  [[nodiscard]] Error&& error() && { return std::move(state_.error()); }

 private:
  tl::expected<void, Error> state_;
};

using Status = Result<void>;

[[nodiscard]] inline Status ok() {
  return {};
}

}  // namespace phalanx

#define PHALANX_CONCAT_INNER(a, b) a##b
#define PHALANX_CONCAT(a, b) PHALANX_CONCAT_INNER(a, b)

// PHALANX_TRY(auto x, expr): declares x from the value of expr, or returns its error from this
// function.
#define PHALANX_TRY(declaration, expression) \
  PHALANX_TRY_INNER(declaration, PHALANX_CONCAT(phalanx_try_, __LINE__), expression)
// `declaration` declares a name, so it cannot stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define PHALANX_TRY_INNER(declaration, temporary, expression) \
  auto temporary = (expression);                              \
  if (!temporary)                                             \
    return std::move(temporary).error();                      \
  declaration = *std::move(temporary)
// NOLINTEND(bugprone-macro-parentheses)

// One statement, which counts as one level of nesting and not as three.
#define PHALANX_RETURN_IF_ERROR(expression)                \
  if (auto phalanx_status = (expression); !phalanx_status) \
    return std::move(phalanx_status).error();              \
  else                                                     \
    static_cast<void>(0)
