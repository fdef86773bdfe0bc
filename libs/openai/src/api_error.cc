// SPDX-License-Identifier: Apache-2.0
#include "phalanx/openai/api_error.h"

#include <utility>

#include "phalanx/json/writer.h"

namespace phalanx::openai {
namespace {

std::string_view type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    case 501:
    case 505:
      return "invalid_request_error";  // the client's to change
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::optional<std::string> code_of(int status) {
  switch (status) {
    case 503:
      return "unavailable";
    case 504:
      return "deadline_exceeded";
    case 501:
      return "not_supported";
    default:
      return std::nullopt;
  }
}

constexpr const char* kContextExceeded = "context_length_exceeded";

// Clients that shorten prompts by themselves know the error by these words, some with the capital
// letter (LiteLLM), some by the code in the message (LangChain).
std::string context_text(std::size_t tokens) {
  return "This model's maximum context length is " + std::to_string(tokens) + " tokens";
}

}  // namespace

ApiError invalid_field(std::string param, std::string message) {
  ApiError error;
  error.message = std::move(message);
  error.param = std::move(param);
  return error;
}

ApiError model_not_found(std::string_view asked, const std::vector<std::string>& served) {
  ApiError error;
  std::string names;
  for (const std::string& name : served) {
    names += (names.empty() ? "" : ", ") + json::quote(name);
  }
  error.http_status = 404;
  error.message = "the model " + json::quote(asked.substr(0, 256)) +
                  " is not served here; this server has " + names;
  error.param = "model";
  error.code = "model_not_found";
  return error;
}

ApiError context_too_long(std::string param,
                          std::size_t prompt_tokens,
                          std::size_t context_tokens) {
  ApiError error;
  error.message = param + ": the prompt has " + std::to_string(prompt_tokens) + " tokens. " +
                  context_text(context_tokens) +
                  ", of which at least one is needed for the answer; shorten the prompt (" +
                  kContextExceeded + ")";
  error.param = std::move(param);
  error.code = kContextExceeded;
  return error;
}

ApiError max_tokens_too_large(std::string field,
                              std::size_t asked,
                              std::size_t prompt_tokens,
                              std::size_t context_tokens) {
  const std::size_t room = context_tokens > prompt_tokens ? context_tokens - prompt_tokens : 0;
  ApiError error;
  error.message = field + ": expected at most " + std::to_string(room) + ", came " +
                  std::to_string(asked) + ". " + context_text(context_tokens) +
                  ", and the prompt has " + std::to_string(prompt_tokens) + " (" +
                  kContextExceeded + ")";
  error.param = std::move(field);
  error.code = kContextExceeded;
  return error;
}

ApiError min_tokens_too_large(std::size_t asked, std::size_t max_tokens, bool takes_rest) {
  return invalid_field("min_tokens",
                       "min_tokens: expected at most " + std::to_string(max_tokens) +
                           (takes_rest ? ", which the context leaves behind the prompt"
                                       : ", which max_tokens is where none is sent") +
                           ", came " + std::to_string(asked));
}

ApiError from_error(const Error& error) {
  const ErrorTraits& traits = error_traits(error.code());
  ApiError answer = from_http_status(traits.http_status, error.message());
  if (error.code() == Code::kPoisoned) {
    answer.code = traits.name;
  }
  return answer;
}

ApiError from_http_status(int status, std::string message) {
  ApiError error;
  error.http_status = status;
  error.type = type_of(status);
  error.message = std::move(message);
  error.code = code_of(status);
  return error;
}

bool is_final(const ApiError& error) {
  return error.http_status == 501 || error.http_status == 505 ||
         error.code == error_traits(Code::kPoisoned).name;
}

std::string error_body(const ApiError& error) {
  json::Writer json;
  json.begin_object().key("error").begin_object();
  json.key("message").text(error.message);
  json.key("type").text(error.type);
  json.key("param");
  error.param ? json.text(*error.param) : json.null();
  json.key("code");
  error.code ? json.text(*error.code) : json.null();
  json.end_object().end_object();
  return json.take();
}

}  // namespace phalanx::openai
