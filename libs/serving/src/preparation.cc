// SPDX-License-Identifier: Apache-2.0
#include "preparation.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "phalanx/http/sse.h"

#include "ignored_fields.h"

namespace phalanx::serving {

namespace {

constexpr std::uint32_t kCompletionDefaultTokens = 16;  // what the completions API documents

// What a body may multiply at most, besides n and prompts × n (RequestBounds).
constexpr std::size_t kMaxTopLogprobsPerStep = 512;          // prompts × n × top_logprobs
constexpr std::size_t kMaxEchoBytes = std::size_t{4} << 20;  // echoed text × n

std::optional<openai::ApiError> check_top_logprobs(const openai::GenerationFields& fields,
                                                   std::size_t prompts,
                                                   const std::string& field) {
  const std::size_t asked = prompts * fields.n * fields.top_logprobs.value_or(0);
  if (asked <= kMaxTopLogprobsPerStep) {
    return std::nullopt;
  }
  return openai::invalid_field(field,
                               field + ": expected prompts × n × " + field + " of at most " +
                                   std::to_string(kMaxTopLogprobsPerStep) + ", found " +
                                   std::to_string(asked));
}

std::optional<openai::ApiError> check_echo(std::size_t bytes) {
  if (bytes <= kMaxEchoBytes) {
    return std::nullopt;
  }
  return openai::invalid_field("echo",
                               "echo: expected prompts × n of at most " +
                                   std::to_string(kMaxEchoBytes) + " bytes, came at least " +
                                   std::to_string(bytes) + "; lower n or leave echo out");
}

AnswerOptions answer_options(openai::Api api,
                             const openai::GenerationFields& fields,
                             openai::ResponseHead head) {
  AnswerOptions options;
  options.api = api;
  options.head = std::move(head);
  options.stream = fields.stream;
  options.include_usage = fields.include_usage;
  options.continuous_usage = fields.continuous_usage_stats;
  options.logprobs = fields.top_logprobs.has_value();
  options.ignored_fields = ignored_fields_text(fields.ignored_fields);
  return options;
}

// What prompt `index` of a body draws from when its client gave no seed, which is the same for all:
// equal prompts are different samples.
std::uint64_t drawn_for(std::uint64_t seed, std::size_t index) {
  constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15;  // odd: no two of a body are equal
  return seed + index * kStep;
}

// Adds one prompt; false if it was refused.
bool add_prompt(const ServedModel& model,
                const openai::GenerationFields& fields,
                std::vector<TokenId> ids,
                const PromptOrigin& origin,
                std::uint64_t seed,
                Prepared* out) {
  auto completed = complete_request(model, fields, std::move(ids), origin, seed);
  if (!completed) {
    out->error = std::move(completed).error();
    return false;
  }
  out->prompts.push_back(*std::move(completed));
  return true;
}

openai::ApiResult<std::vector<TokenId>> ids_of(const ServedModel& model,
                                               const openai::Prompt& prompt,
                                               bool add_special_tokens) {
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    return tokenize_text(model, *text, add_special_tokens);
  }
  return std::get<std::vector<TokenId>>(prompt);
}

// How prompts stand before each of their choices in a stream: as events that are made here, as n
// times a long text is nothing to write on a loop. Behind the last prompt, for the usage of all.
void write_echo_events(const openai::GenerationFields& fields, Prepared* out) {
  openai::Usage usage;
  for (const GenerationRequest& prompt : out->prompts) {
    usage.prompt_tokens += prompt.generation.prompt_ids.size();
  }
  const openai::StreamChunks chunks(out->answer.api, out->answer.head);
  openai::ChoiceText choice;
  for (EchoedPrompt& echo : out->answer.echo) {
    const std::string text = std::exchange(echo.text, {});
    choice.text = text;
    for (std::uint32_t i = 0; i < fields.n; ++i, ++choice.index) {
      if (!text.empty()) {
        echo.events.push_back(
            http::sse_event(chunks.text(choice, fields.continuous_usage_stats ? &usage : nullptr)));
      }
    }
  }
}

}  // namespace

openai::RequestBounds bounds_of(const ServedModel& model) {
  openai::RequestBounds bounds;
  bounds.vocab_size = static_cast<TokenId>(model.vocab);
  return bounds;
}

std::optional<openai::ApiError> check_model(const ServedModel& model, const std::string& asked) {
  const auto& aliases = model.aliases;
  if (asked.empty() || asked == model.name ||
      std::find(aliases.begin(), aliases.end(), asked) != aliases.end()) {
    return std::nullopt;
  }
  std::vector<std::string> served = {model.name};
  served.insert(served.end(), aliases.begin(), aliases.end());
  return openai::model_not_found(asked, served);
}

Prepared prepare_chat(const ServedModel& model, Unprepared unprepared) {
  Prepared out;
  auto parsed = openai::parse_chat_request(unprepared.body, bounds_of(model));
  if (!parsed) {
    out.error = std::move(parsed).error();
    return out;
  }
  const openai::ChatRequest& request = *parsed;
  if ((out.error = check_model(model, request.model))) {
    return out;
  }
  if ((out.error = check_top_logprobs(request.generation, 1, "top_logprobs"))) {
    return out;
  }
  auto ids = tokenize_chat(model, request.conversation, unprepared.head.created);
  if (!ids) {
    out.error = std::move(ids).error();
    return out;
  }
  out.answer = answer_options(openai::Api::kChat, request.generation, std::move(unprepared.head));
  out.ignored_fields = request.generation.ignored_fields;
  add_prompt(model, request.generation, *std::move(ids), {"messages", 0}, unprepared.seed, &out);
  return out;
}

Prepared prepare_completion(const ServedModel& model, Unprepared unprepared) {
  Prepared out;
  auto parsed = openai::parse_completion_request(unprepared.body, bounds_of(model));
  if (!parsed) {
    out.error = std::move(parsed).error();
    return out;
  }
  const openai::CompletionRequest& request = *parsed;
  if ((out.error = check_model(model, request.model))) {
    return out;
  }
  if ((out.error = check_top_logprobs(request.generation, request.prompts.size(), "logprobs"))) {
    return out;
  }
  out.answer = answer_options(openai::Api::kText, request.generation, std::move(unprepared.head));
  out.ignored_fields = request.generation.ignored_fields;
  std::size_t echo_bytes = 0;
  for (const openai::Prompt& prompt : request.prompts) {
    const std::string field = request.prompts.size() == 1
                                  ? "prompt"
                                  : "prompt[" + std::to_string(out.prompts.size()) + "]";
    auto ids = ids_of(model, prompt, request.add_special_tokens);
    if (!ids) {
      out.error = std::move(ids).error();
      return out;
    }
    if (request.echo) {
      const auto* given = std::get_if<std::string>(&prompt);
      std::string text = given != nullptr ? *given : model.tokenizer->decode(*ids, {false});
      echo_bytes += text.size() * request.generation.n;
      if ((out.error = check_echo(echo_bytes))) {
        return out;
      }
      out.answer.echo.push_back({std::move(text), {}});
    }
    if (!add_prompt(model,
                    request.generation,
                    *std::move(ids),
                    {field, kCompletionDefaultTokens},
                    drawn_for(unprepared.seed, out.prompts.size()),
                    &out)) {
      return out;
    }
  }
  if (request.generation.stream) {
    write_echo_events(request.generation, &out);
  }
  return out;
}

}  // namespace phalanx::serving
