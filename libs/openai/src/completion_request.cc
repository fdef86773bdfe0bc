// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/result.h"
#include "phalanx/openai/requests.h"

#include "generation_fields.h"

namespace phalanx::openai {
namespace {

constexpr std::size_t kMaxPromptTokens = std::size_t{1} << 22;

class CompletionReader {
 public:
  explicit CompletionReader(const RequestBounds& bounds)
      : bounds_(bounds), generation_(Endpoint::kCompletions, bounds_, &request_.generation) {}

  Refusal read(const Field& field) {
    if (field.name == "model") {
      return read_text(field, &request_.model, kMaxModelBytes);
    }
    if (field.name == "prompt") {
      return read_prompts(field);
    }
    if (field.name == "echo") {
      return read_bool(field, &request_.echo);
    }
    if (field.name == "add_special_tokens") {
      return read_bool(field, &request_.add_special_tokens);
    }
    if (field.name == "best_of") {
      std::int64_t best_of = 0;
      auto refusal = read_int(field, {1, bounds_.choices_max}, &best_of);
      best_of_ = best_of;
      return refusal;
    }
    return generation_.read(field);
  }

  ApiResult<CompletionRequest> finish() {
    if (request_.prompts.empty()) {
      return invalid_field("prompt", "prompt: expected a string or a list, came nothing");
    }
    if (auto refusal = generation_.finish()) {
      return *std::move(refusal);
    }
    const std::uint32_t n = request_.generation.n;
    if (best_of_ != 0 && best_of_ != n) {
      return unsupported("best_of", "choices are not ranked; leave it out, or send the value of n");
    }
    if (request_.prompts.size() * n > bounds_.choices_max) {
      return invalid_field("n",
                           "n: expected at most " + std::to_string(bounds_.choices_max) +
                               " choices for all prompts together, came " + std::to_string(n) +
                               " for each of " + std::to_string(request_.prompts.size()) +
                               " prompts");
    }
    if (request_.echo && request_.generation.top_logprobs) {
      return unsupported("echo", "prompts have no logprobs; leave out echo or logprobs");
    }
    return std::move(request_);
  }

 private:
  Refusal read_prompts(const Field& field) {
    if (const std::string* text = field.value.as_string()) {
      request_.prompts.emplace_back(*text);
      return std::nullopt;
    }
    const auto* list = field.value.as_array();
    if (list == nullptr || list->empty()) {
      return wrong(field,
                   "a string, a list of strings, a list of token ids or a list of such lists");
    }
    const json::Value& first = list->front();
    if (first.as_int() != nullptr || first.as_double() != nullptr) {
      return add_tokens(field);
    }
    if (list->size() > bounds_.prompts_max) {
      return invalid_field("prompt",
                           "prompt: expected at most " + std::to_string(bounds_.prompts_max) +
                               " prompts, came " + std::to_string(list->size()));
    }
    const bool is_text = list->front().as_string() != nullptr;
    for (std::size_t i = 0; i < list->size(); ++i) {
      const Field element{"prompt[" + std::to_string(i) + "]", (*list)[i]};
      const std::string* text = element.value.as_string();
      if (is_text && text == nullptr) {
        return wrong(element, "a string, like the first prompt");
      }
      if (is_text) {
        request_.prompts.emplace_back(*text);
      } else if (element.value.as_array() == nullptr) {
        return wrong(element,
                     i == 0 ? "a string, a token id or a list of token ids"
                            : "a list of token ids, like the first prompt");
      } else if (auto refusal = add_tokens(element)) {
        return refusal;
      }
    }
    return std::nullopt;
  }

  Refusal add_tokens(const Field& field) {
    std::vector<TokenId> tokens;
    if (auto refusal = read_tokens(field, bounds_.vocab_size, kMaxPromptTokens, &tokens)) {
      return refusal;
    }
    if (tokens.empty()) {
      return wrong(field, "at least one token id");
    }
    request_.prompts.emplace_back(std::move(tokens));
    return std::nullopt;
  }

  RequestBounds bounds_;
  CompletionRequest request_;
  GenerationReader generation_;
  std::int64_t best_of_ = 0;  // 0 = not sent
};

}  // namespace

ApiResult<CompletionRequest> parse_completion_request(std::string_view json,
                                                      const RequestBounds& bounds) {
  PHALANX_TRY(const json::Value object, parse_object(json));
  CompletionReader reader(bounds);
  for (const auto& [key, value] : *object.as_object()) {
    if (value.is_null()) {
      continue;
    }
    if (auto refusal = reader.read({key, value})) {
      return *std::move(refusal);
    }
  }
  return reader.finish();
}

}  // namespace phalanx::openai
