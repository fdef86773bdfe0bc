// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/openai/api_error.h"
#include "phalanx/openai/requests.h"
#include "phalanx/serving/text_choice.h"
#include "phalanx/step/sampling.h"
#include "phalanx/tokenizer/chat_template.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx::serving {

// The model as clients see it. Borrowed parts outlive it.
// Threads: const, any.
struct ServedModel {
  std::string name;                  // what clients call it, and answers
  std::vector<std::string> aliases;  // what clients may call it besides
  std::string root;                  // the folder it came from
  std::int64_t created = 0;
  std::uint32_t max_model_len = 0;
  std::uint32_t vocab = 0;
  const tokenizer::Tokenizer* tokenizer = nullptr;
  const tokenizer::ChatTemplate* chat_template = nullptr;  // null: completions only
  const tokenizer::ChatTemplate* tool_template = nullptr;  // for tools; null: the same one
  step::SamplingParams default_sampling;                   // of generation_config.json
  std::vector<TokenId> end_tokens;                         // end-of-sequence ids, ascending
};

// Where an error about the prompt belongs: "messages" or "prompt".
struct PromptOrigin {
  std::string field;
  std::uint32_t default_max_tokens = 0;  // 0: the whole room behind the prompt
};

// Fills in what the client left out, and checks the prompt against the context: at least one token,
// room for at least one more, and for max_tokens if the client named it. `drawn_seed` is used if
// the client gave none.
[[nodiscard]] openai::ApiResult<GenerationRequest> complete_request(
    const ServedModel& model,
    const openai::GenerationFields& fields,
    std::vector<TokenId> prompt_ids,
    const PromptOrigin& origin,
    std::uint64_t drawn_seed);

// Renders and tokenizes a conversation. A template that asks for the time is told that it is
// `created`, seconds since the epoch: the same when another process does it once more.
// Errors: 400 about "messages" with the template's own message; 400 if the model has no template,
// or none that takes the tools or documents sent.
[[nodiscard]] openai::ApiResult<std::vector<TokenId>> tokenize_chat(
    const ServedModel& model, const openai::TemplateInput& conversation, std::int64_t created);

// Tokenizes a plain text.
// Errors: 400 about "prompt" if that takes the tokenizer too long.
[[nodiscard]] openai::ApiResult<std::vector<TokenId>> tokenize_text(const ServedModel& model,
                                                                    std::string_view text,
                                                                    bool add_special_tokens);

}  // namespace phalanx::serving
