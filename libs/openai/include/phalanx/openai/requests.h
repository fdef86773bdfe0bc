// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/openai/api_error.h"
#include "phalanx/step/limits.h"
#include "phalanx/wire/limits.h"

namespace phalanx::openai {

// What a request may hold at most, besides the body limit of the server.
struct RequestBounds {
  TokenId vocab_size = std::numeric_limits<TokenId>::max();  // ids must be below
  std::uint32_t choices_max = wire::kMaxFrontChoices;        // n, and prompts × n
  std::size_t prompts_max = wire::kMaxFrontPrompts;
  std::size_t messages_max = 8192;
  std::size_t tools_max = 1024;
  std::size_t documents_max = 1024;
  std::size_t stop_strings_max = 64;
  std::size_t stop_string_bytes_max = 1024;
  std::size_t stop_bytes_max = 4096;  // of all strings: every token is looked through for them
  std::size_t stop_token_ids_max = step::kMaxRequestStopTokens;
  std::size_t logit_bias_max = step::kMaxLogitBias;
  std::uint32_t top_logprobs_max = step::kMaxTopLogprobs;
};

// In max_tokens: as many as the context leaves behind the prompt. No client can name so many.
inline constexpr std::uint32_t kRestOfContext = std::numeric_limits<std::uint32_t>::max();

// The fields that chat and completions share. What the client left out (or sent as null) is absent,
// so that the model's own defaults can apply. Ranges of the real numbers: step/sampling_rules.h.
struct GenerationFields {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<std::int32_t> top_k;  // ≥ 0; 0 = all (-1 is read as 0)
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::vector<std::pair<TokenId, float>> logit_bias;  // ascending ids
  std::optional<std::int64_t> seed;                   // (-1 is none)
  std::uint32_t n = 1;
  std::optional<std::uint32_t> max_tokens;      // ≥ 1, or kRestOfContext
  std::string max_tokens_field = "max_tokens";  // the spelling the client used, for messages
  std::uint32_t min_tokens = 0;
  std::string cache_salt;               // not empty if given; at most wire::kMaxSaltBytes
  std::vector<std::string> stop;        // none is empty
  std::vector<TokenId> stop_token_ids;  // ascending, no duplicates
  bool ignore_eos = false;
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;
  // Present if logprobs are wanted: that of each token and of so many likeliest ones (0 … 20).
  std::optional<std::uint32_t> top_logprobs;
  bool stream = false;
  bool include_usage = false;           // stream_options
  bool continuous_usage_stats = false;  // stream_options; usage in every chunk
  std::string user;                     // for logs only
  // Fields that are not known here, in the order sent, at most 32; for the debug log.
  std::vector<std::string> ignored_fields;
};

// What a chat template makes a prompt of, as JSON; "" where the client sent nothing.
struct TemplateInput {
  // An array of {"role", "content", …}: a content is a text or a list of {"type": "text", "text"},
  // an absent one of the assistant or a tool "", the arguments of a tool call are the object that
  // they spell, or the text of one that spells none, and thoughts stand as reasoning and
  // reasoning_content.
  std::string messages_json;
  std::size_t message_count = 0;
  std::string tools_json;      // array of objects, each with a type
  bool calls_no_tool = false;  // tool_choice is "none"
  std::string documents_json;  // likewise
  // An object: chat_template_kwargs and, where these do not have them, reasoning_effort and
  // enable_thinking, which may be sent, also as {"type": "enabled" | "disabled"} of thinking, and
  // else is what the effort means ("none": false).
  std::string variables_json;
  bool add_generation_prompt = true;    // false unless sent if the final message is continued
  bool continue_final_message = false;  // the model goes on with the final message's text
};

struct ChatRequest {
  std::string model;  // "" if the client named none
  TemplateInput conversation;
  GenerationFields generation;
};

using Prompt = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
  std::string model;
  std::vector<Prompt> prompts;  // at least one; choice index = prompt index × n + i
  bool echo = false;
  bool add_special_tokens = true;
  GenerationFields generation;
};

struct TokenizeRequest {
  std::string model;
  // Either a text, or a conversation as in ChatRequest.
  std::optional<std::string> prompt;
  TemplateInput conversation;
  bool add_special_tokens = true;  // a conversation: false unless sent
  bool return_token_strs = false;
  std::vector<std::string> ignored_fields;  // as in GenerationFields
};

struct DetokenizeRequest {
  std::string model;
  std::vector<TokenId> tokens;
  std::vector<std::string> ignored_fields;  // as in GenerationFields
};

// JSON text → request. Unknown fields are ignored and listed; a known field of the wrong type or
// range, or one that asks for something that this version does not have, is an ApiError naming the
// field, what was expected and what came.
// Bounds: 64 levels of nesting; strings are valid UTF-8; a key may stand only once in an object
// (two values for one name are an error, not a choice).
//
// Pure; any thread.
// Cost: linear in the text.
[[nodiscard]] ApiResult<ChatRequest> parse_chat_request(std::string_view json,
                                                        const RequestBounds& bounds = {});
[[nodiscard]] ApiResult<CompletionRequest> parse_completion_request(
    std::string_view json, const RequestBounds& bounds = {});
[[nodiscard]] ApiResult<TokenizeRequest> parse_tokenize_request(std::string_view json,
                                                                const RequestBounds& bounds = {});
[[nodiscard]] ApiResult<DetokenizeRequest> parse_detokenize_request(
    std::string_view json, const RequestBounds& bounds = {});

}  // namespace phalanx::openai
