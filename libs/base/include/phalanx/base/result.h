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

  Result(T value) : state_(std::move(value)) {}  // NOLINT(google-explicit-constructor): `return v;`
  Result(Error error)
      : state_(tl::unexpect, std::move(error)) {
  }  // NOLINT(google-explicit-constructor): `return e;`

  [[nodiscard]] bool has_value() const { return state_.has_value(); }
  explicit operator bool() const { return has_value(); }

  // Requires has_value().
  T& value() & { return *state_; }
  const T& value() const& { return *state_; }
  T&& value() && { return std::move(*state_); }
  T& operator*() & { return *state_; }
  const T& operator*() const& { return *state_; }
  T&& operator*() && { return std::move(*state_); }
  T* operator->() { return &*state_; }
  const T* operator->() const { return &*state_; }

  // Requires !has_value().
  Error& error() & { return state_.error(); }
  const Error& error() const& { return state_.error(); }
  Error&& error() && { return std::move(state_.error()); }

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
  Result(Error error)
      : state_(tl::unexpect, std::move(error)) {
  }  // NOLINT(google-explicit-constructor): `return e;`

  [[nodiscard]] bool has_value() const { return state_.has_value(); }
  explicit operator bool() const { return has_value(); }
  Error& error() & { return state_.error(); }
  const Error& error() const& { return state_.error(); }
  Error&& error() && { return std::move(state_.error()); }

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
#define PHALANX_TRY_INNER(declaration, temporary, expression) \
  auto temporary = (expression);                              \
  if (!temporary) {                                           \
    return std::move(temporary).error();                      \
  }                                                           \
  declaration = *std::move(temporary)

#define PHALANX_RETURN_IF_ERROR(expression)     \
  do {                                          \
    auto phalanx_status = (expression);         \
    if (!phalanx_status) {                      \
      return std::move(phalanx_status).error(); \
    }                                           \
  } while (false)
