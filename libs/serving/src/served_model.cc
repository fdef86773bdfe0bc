// SPDX-License-Identifier: Apache-2.0
#include "phalanx/serving/served_model.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "phalanx/step/sampling.h"
#include "phalanx/wire/codec.h"

namespace phalanx::serving {

namespace {

// Booked for a choice whose client names no max_tokens: most end long before the context is full.
constexpr std::uint32_t kBookedUnsaid = 1024;

step::SamplingParams sampling_of(const ServedModel& model,
                                 const openai::GenerationFields& fields,
                                 std::uint64_t drawn_seed) {
  step::SamplingParams result = model.default_sampling;
  result.temperature = fields.temperature.value_or(result.temperature);
  result.top_k = fields.top_k.value_or(result.top_k);
  result.top_p = fields.top_p.value_or(result.top_p);
  result.min_p = fields.min_p.value_or(result.min_p);
  result.repetition_penalty = fields.repetition_penalty.value_or(result.repetition_penalty);
  result.presence_penalty = fields.presence_penalty.value_or(result.presence_penalty);
  result.frequency_penalty = fields.frequency_penalty.value_or(result.frequency_penalty);
  // A request can name what was drawn, to get the same answer again.
  constexpr std::uint64_t kNamed = std::numeric_limits<std::int64_t>::max();
  result.seed = fields.seed ? static_cast<std::uint64_t>(*fields.seed) : drawn_seed & kNamed;
  result.logit_bias = fields.logit_bias;
  result.top_logprobs = fields.top_logprobs ? static_cast<std::int32_t>(*fields.top_logprobs) : -1;
  result.min_tokens = fields.min_tokens;
  return result;
}

std::vector<TokenId> stop_tokens_of(const ServedModel& model,
                                    const openai::GenerationFields& fields) {
  std::vector<TokenId> result = fields.stop_token_ids;
  if (!fields.ignore_eos) {
    result.insert(result.end(), model.end_tokens.begin(), model.end_tokens.end());
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
  }
  return result;
}

// Those that stop_tokens_of() has from the client alone.
std::vector<TokenId> own_stop_tokens_of(const ServedModel& model,
                                        const openai::GenerationFields& fields) {
  std::vector<TokenId> result = fields.stop_token_ids;
  std::erase_if(result, [&](TokenId token) {
    return !fields.ignore_eos &&
           std::binary_search(model.end_tokens.begin(), model.end_tokens.end(), token);
  });
  return result;
}

// A text that takes the tokenizer too long is the client's to change, and no state of the server.
openai::ApiResult<std::vector<TokenId>> ids_or_refusal(const std::string& field,
                                                       Result<std::vector<TokenId>> ids) {
  if (ids) {
    return *std::move(ids);
  }
  return ids.error().code() == Code::kResourceExhausted
             ? openai::invalid_field(field, field + ": " + ids.error().message())
             : openai::from_error(ids.error());
}

}  // namespace

openai::ApiResult<GenerationRequest> complete_request(const ServedModel& model,
                                                      const openai::GenerationFields& fields,
                                                      std::vector<TokenId> prompt_ids,
                                                      const PromptOrigin& origin,
                                                      std::uint64_t drawn_seed) {
  if (prompt_ids.empty()) {
    return openai::invalid_field(origin.field,
                                 origin.field + ": expected text of at least one token, came none");
  }
  if (prompt_ids.size() >= model.max_model_len) {
    return openai::context_too_long(origin.field, prompt_ids.size(), model.max_model_len);
  }
  const auto room = static_cast<std::uint32_t>(model.max_model_len - prompt_ids.size());
  const bool wants_rest = fields.max_tokens == openai::kRestOfContext;
  const std::optional<std::uint32_t> named = wants_rest ? std::nullopt : fields.max_tokens;
  if (named && *named > room) {
    return openai::max_tokens_too_large(
        fields.max_tokens_field, *named, prompt_ids.size(), model.max_model_len);
  }
  GenerationRequest request;
  dispatch::Generation& generation = request.generation;
  generation.sampling = sampling_of(model, fields, drawn_seed);
  const bool takes_rest = wants_rest || origin.default_max_tokens == 0;
  const std::uint32_t preset = takes_rest ? room : std::min(room, origin.default_max_tokens);
  generation.stop.max_tokens = named.value_or(preset);
  if (fields.min_tokens > generation.stop.max_tokens) {
    return openai::min_tokens_too_large(fields.min_tokens, generation.stop.max_tokens, takes_rest);
  }
  generation.stop.stop_token_ids = stop_tokens_of(model, fields);
  generation.stop.ignore_eos = fields.ignore_eos;
  // Fields are checked one by one where they are read; this is what a replica will ask of them.
  for (const Status& fits : {wire::check(generation.sampling), wire::check(generation.stop)}) {
    if (!fits) {
      return openai::from_error(fits.error());
    }
  }
  generation.choices = fields.n;
  generation.prompt_ids = std::move(prompt_ids);
  generation.cache_salt = fields.cache_salt;
  const std::uint32_t per_choice =
      named.value_or(std::min(generation.stop.max_tokens, kBookedUnsaid));
  request.booked_tokens = generation.prompt_ids.size() + std::uint64_t{per_choice} * fields.n;
  request.text.stop_strings = fields.stop;
  request.text.own_stop_tokens = own_stop_tokens_of(model, fields);
  request.text.include_stop_in_output = fields.include_stop_str_in_output;
  request.text.skip_special_tokens = fields.skip_special_tokens;
  request.text.min_tokens = fields.min_tokens;
  return request;
}

openai::ApiResult<std::vector<TokenId>> tokenize_chat(const ServedModel& model,
                                                      const openai::TemplateInput& conversation,
                                                      std::int64_t created) {
  bool has_tools = !conversation.tools_json.empty();
  const tokenizer::ChatTemplate* const chat_template =
      has_tools && model.tool_template != nullptr ? model.tool_template : model.chat_template;
  if (chat_template == nullptr) {
    return openai::invalid_field(
        "messages", "the model " + model.name + " has no chat template; use /v1/completions");
  }
  // Tools that are not to be called may go unmentioned; anything else that the template never looks
  // at would be dropped without a word.
  has_tools = has_tools && !(conversation.calls_no_tool && !chat_template->mentions("tools"));
  for (const auto& [field, sent] : {std::pair{"tools", has_tools},
                                    std::pair{"documents", !conversation.documents_json.empty()}}) {
    if (sent && !chat_template->mentions(field)) {
      return openai::invalid_field(field,
                                   std::string(field) + ": the chat template of " + model.name +
                                       " takes none; leave them out");
    }
  }
  tokenizer::RenderRequest render;
  render.now = std::chrono::system_clock::time_point(std::chrono::seconds(created));
  render.messages_json = conversation.messages_json;
  if (has_tools) {
    render.tools_json = conversation.tools_json;
  }
  render.documents_json = conversation.documents_json;
  render.variables_json = conversation.variables_json;
  render.add_generation_prompt = conversation.add_generation_prompt;
  render.continue_final_message = conversation.continue_final_message;
  auto segments = chat_template->render(render);
  if (!segments) {
    return openai::invalid_field(
        "messages", "the chat template of " + model.name + ": " + segments.error().message());
  }
  return ids_or_refusal("messages", model.tokenizer->encode_segments(*segments));
}

openai::ApiResult<std::vector<TokenId>> tokenize_text(const ServedModel& model,
                                                      std::string_view text,
                                                      bool add_special_tokens) {
  return ids_or_refusal("prompt", model.tokenizer->encode(text, {true, add_special_tokens}));
}

}  // namespace phalanx::serving
