// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "phalanx/base/error.h"

namespace phalanx::openai {

// The error object of the API: {"error": {"message", "type", "param", "code"}}.
struct ApiError {
  int http_status = 400;
  std::string type = "invalid_request_error";
  std::string message;
  std::optional<std::string> param;  // the field at fault: "messages[2].content"
  std::optional<std::string> code;   // for programs: "model_not_found"

  friend bool operator==(const ApiError&, const ApiError&) = default;
};

// A value, or the answer that the client gets instead: as Result, with another error. PHALANX_TRY
// takes it.
template <typename T>
class [[nodiscard]] ApiResult {
 public:
  // Both convert implicitly, for `return value;` and `return error;`.
  ApiResult(T value) : state_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  ApiResult(ApiError error)                         // NOLINT(google-explicit-constructor)
      : state_(tl::unexpect, std::move(error)) {}

  [[nodiscard]] bool has_value() const { return state_.has_value(); }
  explicit operator bool() const { return has_value(); }

  // Requires has_value().
  T& operator*() & { return *state_; }
  const T& operator*() const& { return *state_; }
  T&& operator*() && { return std::move(*state_); }
  T* operator->() { return &*state_; }
  const T* operator->() const { return &*state_; }

  // Requires !has_value().
  [[nodiscard]] const ApiError& error() const& { return state_.error(); }
  [[nodiscard]] ApiError&& error() && { return std::move(state_.error()); }

 private:
  tl::expected<T, ApiError> state_;
};

// 400 about one field. The message should say what was expected and what came.
[[nodiscard]] ApiError invalid_field(std::string param, std::string message);

// 404 model_not_found, naming what is served.
[[nodiscard]] ApiError model_not_found(std::string_view asked,
                                       const std::vector<std::string>& served);

// 400 context_length_exceeded about `param` ("messages", "prompt").
[[nodiscard]] ApiError context_too_long(std::string param,
                                        std::size_t prompt_tokens,
                                        std::size_t context_tokens);

// 400 about `field` (the spelling that the client used): more tokens asked for than the context has
// room for behind the prompt.
[[nodiscard]] ApiError max_tokens_too_large(std::string field,
                                            std::size_t asked,
                                            std::size_t prompt_tokens,
                                            std::size_t context_tokens);

// An error of ours as the client sees it: status from error_traits(), type from the status;
// kPoisoned has a code of its own, so that a client does not try again.
// Without a max_tokens in the request; `takes_rest` tells whether that leaves the whole context or
// fewer.
[[nodiscard]] ApiError min_tokens_too_large(std::size_t asked,
                                            std::size_t max_tokens,
                                            bool takes_rest);
[[nodiscard]] ApiError from_error(const Error& error);

// An error of the HTTP layer (404, 405, 413, …).
[[nodiscard]] ApiError from_http_status(int status, std::string message);

// Whether the same request, sent again, would fail again though its status is 500 or above, which
// SDKs take for a reason to send it again: a poisoned request, and what this server does not speak.
[[nodiscard]] bool is_final(const ApiError& error);

// The error object as JSON text.
[[nodiscard]] std::string error_body(const ApiError& error);

}  // namespace phalanx::openai
