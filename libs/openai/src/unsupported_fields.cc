// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "generation_fields.h"

namespace phalanx::openai {
namespace {

// Which value of a field asks for what happens anyway. null always does.
enum class Harmless {
  kAnything,  // bookkeeping that cannot change the answer
  kNullOnly,
  kFalse,
  kTrue,
  kFalseOrTrue,
  kZero,
  kOne,
  kNegative,  // -1: without limit, or off
  kNotPositive,
  kMedium,
  kEmpty,       // "", [] or {}
  kNoneOrAuto,  // "none" or "auto": there is nothing to choose from
  kTextFormat,  // {"type": "text"}
  kTextModality
};

enum class Where { kBoth, kChat, kCompletions };

struct KnownField {
  std::string_view name;
  Harmless harmless;
  std::string_view reason;
  Where where = Where::kBoth;
};

constexpr std::array kKnownFields = {
    KnownField{"metadata", Harmless::kAnything, ""},
    KnownField{"store", Harmless::kAnything, ""},
    KnownField{"service_tier", Harmless::kAnything, ""},
    KnownField{"safety_identifier", Harmless::kAnything, ""},
    KnownField{"prompt_cache_key", Harmless::kAnything, ""},
    KnownField{"prompt_cache_retention", Harmless::kAnything, ""},
    KnownField{"prompt_cache_options", Harmless::kAnything, ""},
    KnownField{"request_id", Harmless::kAnything, ""},
    KnownField{"parallel_tool_calls", Harmless::kAnything, ""},
    KnownField{"prediction", Harmless::kAnything, ""},  // of text, to answer sooner
    KnownField{"tool_choice", Harmless::kNoneOrAuto, "only chat has tools", Where::kCompletions},
    KnownField{"tools", Harmless::kEmpty, "only chat has tools", Where::kCompletions},
    KnownField{"functions", Harmless::kEmpty, "functions cannot be called yet"},
    KnownField{"function_call", Harmless::kNoneOrAuto, "functions cannot be called yet"},
    KnownField{"response_format", Harmless::kTextFormat, "answers are free text"},
    KnownField{"structured_outputs", Harmless::kNullOnly, "answers are free text"},
    KnownField{"guided_json", Harmless::kNullOnly, "answers are free text"},
    KnownField{"guided_regex", Harmless::kNullOnly, "answers are free text"},
    KnownField{"guided_choice", Harmless::kEmpty, "answers are free text"},
    KnownField{"guided_grammar", Harmless::kNullOnly, "answers are free text"},
    KnownField{"grammar", Harmless::kEmpty, "answers are free text"},
    KnownField{"json_schema", Harmless::kEmpty, "answers are free text"},
    KnownField{"regex", Harmless::kNullOnly, "answers are free text"},
    KnownField{"ebnf", Harmless::kNullOnly, "answers are free text"},
    KnownField{"modalities", Harmless::kTextModality, "the model answers in text"},
    KnownField{"audio", Harmless::kNullOnly, "the model answers in text"},
    KnownField{"web_search_options", Harmless::kNullOnly, "there is no web search"},
    KnownField{"moderation", Harmless::kNullOnly, "there is no moderation"},
    KnownField{"reasoning_effort",
               Harmless::kNullOnly,
               "only chat has a template that could follow it",
               Where::kCompletions},
    KnownField{"verbosity", Harmless::kMedium, "the model has no such setting"},
    // Names and settings of other servers that would change the answer.
    KnownField{"n_predict", Harmless::kNullOnly, "it is called max_tokens here"},
    KnownField{"num_predict", Harmless::kNullOnly, "it is called max_tokens here"},
    KnownField{"max_new_tokens", Harmless::kNullOnly, "it is called max_tokens here"},
    KnownField{"max_output_tokens", Harmless::kNullOnly, "it is called max_tokens here"},
    KnownField{"max_tokens_to_sample", Harmless::kNullOnly, "it is called max_tokens here"},
    KnownField{"min_new_tokens", Harmless::kZero, "it is called min_tokens here"},
    KnownField{"num_return_sequences", Harmless::kOne, "it is called n here"},
    KnownField{"stop_sequences", Harmless::kEmpty, "it is called stop here"},
    KnownField{"stopping_strings", Harmless::kEmpty, "it is called stop here"},
    KnownField{"stop_regex", Harmless::kEmpty, "use stop"},
    KnownField{"no_stop_trim", Harmless::kFalse, "use include_stop_str_in_output"},
    KnownField{"best_of", Harmless::kOne, "choices are not ranked", Where::kChat},
    KnownField{"prompt_embeds", Harmless::kEmpty, "prompts are text or token ids"},
    KnownField{"guided_decoding", Harmless::kEmpty, "answers are free text"},
    KnownField{"format", Harmless::kEmpty, "answers are free text"},
    KnownField{
        "enable_thinking", Harmless::kNullOnly, "only chat has a template", Where::kCompletions},
    KnownField{"thinking", Harmless::kEmpty, "only chat has a template", Where::kCompletions},
    KnownField{"reasoning", Harmless::kEmpty, "use reasoning_effort"},
    KnownField{"lora", Harmless::kEmpty, "there are no adapters"},
    KnownField{"lora_path", Harmless::kEmpty, "there are no adapters"},
    KnownField{"logits_processors", Harmless::kEmpty, "use logit_bias"},
    KnownField{"custom_logit_processor", Harmless::kEmpty, "use logit_bias"},
    KnownField{"vllm_xargs", Harmless::kEmpty, "there are no extensions"},
    KnownField{"rep_pen", Harmless::kOne, "it is called repetition_penalty here"},
    KnownField{"no_repeat_ngram_size", Harmless::kZero, "use repetition_penalty"},
    KnownField{"tfs", Harmless::kOne, "there is no such way to sample"},
    KnownField{"mirostat_mode", Harmless::kZero, "there is no such way to sample"},
    KnownField{"top_n_sigma", Harmless::kNotPositive, "there is no such way to sample"},
    KnownField{"smoothing_factor", Harmless::kZero, "there is no such way to sample"},
    KnownField{"penalty_alpha", Harmless::kZero, "there is no such way to sample"},
    KnownField{"guidance_scale", Harmless::kOne, "there is no such way to sample"},
    KnownField{"repeat_penalty", Harmless::kOne, "it is called repetition_penalty here"},
    KnownField{"system", Harmless::kEmpty, "it is a message of role system here"},
    KnownField{"system_prompt", Harmless::kEmpty, "it is a message of role system here"},
    KnownField{"extra_body", Harmless::kEmpty, "its members are fields of the request itself here"},
    KnownField{"options", Harmless::kEmpty, "they are fields of the request itself here"},
    KnownField{"parameters", Harmless::kEmpty, "they are fields of the request itself here"},
    KnownField{"sampling_params", Harmless::kEmpty, "they are fields of the request itself here"},
    KnownField{"random_seed", Harmless::kNullOnly, "it is called seed here"},
    KnownField{"sampling_seed", Harmless::kNullOnly, "it is called seed here"},
    KnownField{"sampler_seed", Harmless::kNullOnly, "it is called seed here"},
    KnownField{"do_sample", Harmless::kTrue, "use temperature 0"},
    KnownField{"max_length", Harmless::kNullOnly, "use max_tokens"},
    KnownField{"min_length", Harmless::kZero, "use min_tokens"},
    KnownField{"num_ctx", Harmless::kNullOnly, "the context is the server's, see --max-model-len"},
    KnownField{"max_time", Harmless::kNullOnly, "answers end by tokens, use max_tokens"},
    KnownField{"t_max_predict_ms", Harmless::kNotPositive, "answers end by tokens, use max_tokens"},
    KnownField{"n_indent", Harmless::kZero, "use stop"},
    KnownField{"min_characters", Harmless::kZero, "use min_tokens"},
    KnownField{"stop_sequence", Harmless::kEmpty, "it is called stop here"},
    KnownField{"ban_eos_token", Harmless::kFalse, "it is called ignore_eos here"},
    KnownField{"suppress_tokens", Harmless::kEmpty, "use logit_bias"},
    KnownField{"bad_words_ids", Harmless::kEmpty, "use logit_bias"},
    KnownField{"banned_tokens", Harmless::kEmpty, "use logit_bias"},
    KnownField{"banned_strings", Harmless::kEmpty, "use logit_bias"},
    KnownField{"custom_token_bans", Harmless::kEmpty, "use logit_bias"},
    KnownField{"logprob_token_ids", Harmless::kEmpty, "use top_logprobs"},
    KnownField{"top_n_tokens", Harmless::kZero, "use logprobs"},
    KnownField{"truncate", Harmless::kFalse, "a prompt is never shortened"},
    KnownField{"prompt_truncate_len", Harmless::kNullOnly, "a prompt is never shortened"},
    KnownField{"regex_pattern", Harmless::kEmpty, "answers are free text"},
    KnownField{"grammar_string", Harmless::kEmpty, "answers are free text"},
    KnownField{"adapter_id", Harmless::kEmpty, "there are no adapters"},
    KnownField{"num_beams", Harmless::kOne, "there is no beam search"},
    KnownField{"think", Harmless::kNullOnly, "use chat_template_kwargs or reasoning_effort"},
    KnownField{"reasoning_budget", Harmless::kNegative, "thinking is not counted apart"},
    KnownField{"thinking_budget_tokens", Harmless::kNegative, "thinking is not counted apart"},
    KnownField{"samplers", Harmless::kEmpty, "their order is fixed"},
    KnownField{"repeat_last_n", Harmless::kNegative, "penalties know no window"},
    KnownField{"encoder_repetition_penalty", Harmless::kOne, "use repetition_penalty"},
    KnownField{"typical", Harmless::kOne, "there is no such way to sample"},
    KnownField{"adaptive_target", Harmless::kNegative, "there is no such way to sample"},
    KnownField{"cfg_scale", Harmless::kOne, "there is no such way to sample"},
    KnownField{"negative_prompt", Harmless::kEmpty, "there is no such way to sample"},
    KnownField{"n_probs", Harmless::kZero, "use logprobs"},
    KnownField{"typical_p", Harmless::kOne, "there is no such way to sample"},
    KnownField{"tfs_z", Harmless::kOne, "there is no such way to sample"},
    KnownField{"top_a", Harmless::kZero, "there is no such way to sample"},
    KnownField{"mirostat", Harmless::kZero, "there is no such way to sample"},
    KnownField{"dynatemp_range", Harmless::kZero, "there is no such way to sample"},
    KnownField{"xtc_probability", Harmless::kZero, "there is no such way to sample"},
    KnownField{"dry_multiplier", Harmless::kZero, "use repetition_penalty"},
    KnownField{
        "suffix", Harmless::kEmpty, "text is only continued at its end", Where::kCompletions},
    KnownField{"echo", Harmless::kFalse, "only completions echo the prompt", Where::kChat},
    KnownField{"length_penalty", Harmless::kOne, "there is no beam search"},
    KnownField{"use_beam_search", Harmless::kFalse, "there is no beam search"},
    // Nothing stands between the texts of tokens that is not part of them, so there are no such
    // spaces to keep or to leave out. SDKs write the default of vLLM, true, and others false.
    KnownField{"spaces_between_special_tokens",
               Harmless::kFalseOrTrue,
               "the texts of tokens are joined as they are"},
    KnownField{"truncate_prompt_tokens", Harmless::kNullOnly, "a prompt is never shortened"},
    KnownField{"prompt_logprobs", Harmless::kNullOnly, "only produced tokens have logprobs"},
    KnownField{"allowed_token_ids", Harmless::kNullOnly, "use logit_bias"},
    KnownField{"bad_words", Harmless::kEmpty, "use logit_bias"},
    KnownField{"documents", Harmless::kEmpty, "only chat has documents", Where::kCompletions},
    KnownField{
        "chat_template", Harmless::kNullOnly, "only chat has a template", Where::kCompletions},
    KnownField{
        "chat_template_kwargs", Harmless::kEmpty, "only chat has a template", Where::kCompletions},
    KnownField{
        "chat_template_args", Harmless::kEmpty, "only chat has a template", Where::kCompletions},
    KnownField{"chat_template_args",
               Harmless::kEmpty,
               "it is called chat_template_kwargs here",
               Where::kChat},
    KnownField{
        "continue_final_message", Harmless::kFalse, "only chat has messages", Where::kCompletions},
    KnownField{"mm_processor_kwargs", Harmless::kNullOnly, "the model takes text"},
    KnownField{"priority", Harmless::kZero, "requests are served in the order they come"},
    KnownField{"return_tokens_as_token_ids", Harmless::kFalse, "tokens are shown as text"},
    KnownField{"return_token_ids", Harmless::kFalse, "tokens are shown as text"},
    KnownField{"kv_transfer_params", Harmless::kNullOnly, "KV is not transferred"},
    KnownField{"thinking_token_budget", Harmless::kNullOnly, "thinking is not counted apart"},
    KnownField{"repetition_detection", Harmless::kNullOnly, "use repetition_penalty"},
    KnownField{"return_hidden_states", Harmless::kFalse, "hidden states stay in the ranks"}};

bool is_number(const json::Value& value, std::int64_t number) {
  return integer_of(value) == number;
}

bool is_text(const json::Value* value, std::string_view text) {
  const std::string* string = value == nullptr ? nullptr : value->as_string();
  return string != nullptr && *string == text;
}

bool is_harmless(const json::Value& value, Harmless harmless) {
  switch (harmless) {
    case Harmless::kAnything:
      return true;
    case Harmless::kNullOnly:
      return false;
    case Harmless::kFalse:
      return value.as_bool() != nullptr && !*value.as_bool();
    case Harmless::kTrue:
      return value.as_bool() != nullptr && *value.as_bool();
    case Harmless::kFalseOrTrue:
      return value.as_bool() != nullptr;
    case Harmless::kZero:
      return is_number(value, 0);
    case Harmless::kOne:
      return is_number(value, 1);
    case Harmless::kNegative:
      return integer_of(value).value_or(0) < 0;
    case Harmless::kNotPositive:
      return integer_of(value).value_or(1) <= 0;
    case Harmless::kMedium:
      return is_text(&value, "medium");
    case Harmless::kEmpty:
      return is_empty(value);
    case Harmless::kNoneOrAuto:
      return is_text(&value, "none") || is_text(&value, "auto");
    case Harmless::kTextFormat:
      return is_text(value.find("type"), "text");
    case Harmless::kTextModality:
      return value.as_array() != nullptr && value.as_array()->size() == 1 &&
             is_text(&value.as_array()->front(), "text");
  }
  return false;
}

}  // namespace

bool read_unsupported(const Field& field, Endpoint endpoint, Refusal* refusal) {
  const auto known = std::find_if(kKnownFields.begin(), kKnownFields.end(), [&](const auto& entry) {
    const bool here = entry.where == Where::kBoth ||
                      (entry.where == Where::kChat) == (endpoint == Endpoint::kChat);
    return here && entry.name == field.name;
  });
  if (known == kKnownFields.end()) {
    return false;
  }
  if (!is_harmless(field.value, known->harmless)) {
    *refusal = unsupported(field.name, known->reason);
  }
  return true;
}

}  // namespace phalanx::openai
