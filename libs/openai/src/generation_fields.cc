// SPDX-License-Identifier: Apache-2.0
#include "generation_fields.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace phalanx::openai {
namespace {

struct RealField {
  const step::RealRule& rule;
  std::optional<float> GenerationFields::*member;
};
constexpr std::array kRealFields = {
    RealField{step::kTemperatureRule, &GenerationFields::temperature},
    RealField{step::kMinPRule, &GenerationFields::min_p},
    RealField{step::kRepetitionPenaltyRule, &GenerationFields::repetition_penalty},
    RealField{step::kPresencePenaltyRule, &GenerationFields::presence_penalty},
    RealField{step::kFrequencyPenaltyRule, &GenerationFields::frequency_penalty}};

struct SwitchField {
  std::string_view name;
  bool GenerationFields::*member;
};
constexpr std::array kSwitchFields = {
    SwitchField{"ignore_eos", &GenerationFields::ignore_eos},
    SwitchField{"include_stop_str_in_output", &GenerationFields::include_stop_str_in_output},
    SwitchField{"skip_special_tokens", &GenerationFields::skip_special_tokens},
    SwitchField{"stream", &GenerationFields::stream}};

constexpr std::size_t kMaxUserBytes = 512;

// What clients of vLLM and of llama-server send to have one drawn.
constexpr std::int64_t kNoSeed = -1;

// A share that the least one stands for: none at all, or one that is smaller. Whoever sends it
// wants the likeliest token, which the least share keeps.
bool is_below_least_share(const json::Value& value) {
  const auto* const integer = value.as_int();
  const double* const real = value.as_double();
  return (integer != nullptr && *integer == 0) ||
         (real != nullptr && *real >= 0 && *real < step::kTopPRule.low);
}

}  // namespace

bool GenerationReader::read_number(const Field& field, Refusal* refusal) {
  if (field.name == step::kTopPRule.name) {
    if (is_below_least_share(field.value)) {
      out_->top_p = static_cast<float>(step::kTopPRule.low);
    } else if (read_real(field, step::kTopPRule, &out_->top_p)) {
      *refusal = wrong(field, "a number from 0 to 1");
    }
    return true;
  }
  for (const RealField& known : kRealFields) {
    if (field.name == known.rule.name) {
      *refusal = read_real(field, known.rule, &(out_->*known.member));
      return true;
    }
  }
  std::int64_t value = 0;
  if (field.name == "seed") {
    *refusal = read_int(
        field,
        {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()},
        &value);
    if (value != kNoSeed) {
      out_->seed = value;
    }
  } else if (field.name == "n") {
    *refusal = read_int(field, {1, bounds_.choices_max}, &value);
    out_->n = static_cast<std::uint32_t>(value);
  } else if (field.name == "top_k") {
    *refusal = read_int(field, {-1}, &value);
    out_->top_k = static_cast<std::int32_t>(std::max<std::int64_t>(value, 0));
  } else if (field.name == "min_tokens") {
    *refusal = read_int(field, {0}, &value);
    out_->min_tokens = static_cast<std::uint32_t>(value);
  } else if (field.name == "max_tokens" || field.name == "max_completion_tokens") {
    *refusal = read_max_tokens(field);
  } else {
    return false;
  }
  return true;
}

Refusal GenerationReader::read_max_tokens(const Field& field) {
  std::int64_t value = kRestOfContext;
  if (integer_of(field.value) != -1) {
    if (read_int(field, {1}, &value)) {
      return wrong(field,
                   "an integer from 1 to 2147483647, or -1 for as many as the context leaves");
    }
  }
  // The newer spelling wins when a client sends both.
  if (!out_->max_tokens || field.name == "max_completion_tokens") {
    out_->max_tokens = static_cast<std::uint32_t>(value);
    out_->max_tokens_field = field.name;
  }
  return std::nullopt;
}

bool GenerationReader::read_switch(const Field& field, Refusal* refusal) {
  for (const SwitchField& known : kSwitchFields) {
    if (field.name == known.name) {
      *refusal = read_bool(field, &(out_->*known.member));
      return true;
    }
  }
  return false;
}

bool GenerationReader::read_list(const Field& field, Refusal* refusal) {
  if (field.name == "stop") {
    *refusal = read_stop(field);
  } else if (field.name == "stop_token_ids") {
    *refusal =
        read_tokens(field, bounds_.vocab_size, bounds_.stop_token_ids_max, &out_->stop_token_ids);
    auto& ids = out_->stop_token_ids;
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  } else if (field.name == "logit_bias") {
    *refusal = read_logit_bias(field);
  } else if (field.name == "stream_options") {
    *refusal = read_stream_options(field);
  } else if (field.name == "logprobs" || field.name == "top_logprobs") {
    *refusal = read_logprobs(field);
  } else if (field.name == "user") {
    *refusal = read_text(field, &out_->user, kMaxUserBytes);
  } else if (field.name == "cache_salt") {
    *refusal = read_text(field, &out_->cache_salt, wire::kMaxSaltBytes);
    if (!*refusal && out_->cache_salt.empty()) {
      *refusal = wrong(field, "a string that is not empty");
    }
  } else {
    return false;
  }
  return true;
}

Refusal GenerationReader::read(const Field& field) {
  Refusal refusal;
  if (read_number(field, &refusal) || read_switch(field, &refusal) || read_list(field, &refusal) ||
      read_unsupported(field, endpoint_, &refusal)) {
    return refusal;
  }
  note_ignored(field.name, &out_->ignored_fields);
  return std::nullopt;
}

Refusal GenerationReader::read_stop(const Field& field) {
  const auto read_one = [&](const Field& one) -> Refusal {
    std::string text;
    if (auto refusal = read_text(one, &text, bounds_.stop_string_bytes_max)) {
      return refusal;
    }
    if (!text.empty()) {  // an input that was left empty
      out_->stop.push_back(std::move(text));
    }
    return std::nullopt;
  };
  if (field.value.as_string() != nullptr) {
    return read_one(field);
  }
  const auto* array = field.value.as_array();
  if (array == nullptr) {
    return wrong(field, "a string or a list of strings");
  }
  if (array->size() > bounds_.stop_strings_max) {
    return invalid_field("stop",
                         "stop: expected at most " + std::to_string(bounds_.stop_strings_max) +
                             " strings, came " + std::to_string(array->size()));
  }
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < array->size(); ++i) {
    if (auto refusal = read_one({"stop[" + std::to_string(i) + "]", (*array)[i]})) {
      return refusal;
    }
  }
  for (const std::string& text : out_->stop) {
    bytes += text.size();
  }
  if (bytes > bounds_.stop_bytes_max) {
    return invalid_field("stop",
                         "stop: expected at most " + std::to_string(bounds_.stop_bytes_max) +
                             " bytes in all strings together, came " + std::to_string(bytes));
  }
  return std::nullopt;
}

Refusal GenerationReader::read_logit_bias(const Field& field) {
  const auto* object = field.value.as_object();
  if (object == nullptr) {
    return wrong(field, "an object from token ids to numbers");
  }
  if (object->size() > bounds_.logit_bias_max) {
    return invalid_field(field.name,
                         field.name + ": expected at most " +
                             std::to_string(bounds_.logit_bias_max) + " entries, came " +
                             std::to_string(object->size()));
  }
  for (const auto& [key, value] : *object) {
    TokenId id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 ||
        id >= bounds_.vocab_size) {
      const json::Value shown{json::Value::Data(key)};
      return wrong({field.name, shown},
                   "keys that are token ids from 0 to " + std::to_string(bounds_.vocab_size - 1));
    }
    std::optional<float> bias;
    if (auto refusal = read_real(
            {field.name + "[" + std::to_string(id) + "]", value}, step::kLogitBiasRule, &bias)) {
      return refusal;
    }
    out_->logit_bias.emplace_back(id, *bias);
  }
  auto& biases = out_->logit_bias;
  std::sort(biases.begin(), biases.end());
  const auto same_id = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (std::adjacent_find(biases.begin(), biases.end(), same_id) != biases.end()) {
    // "7" and "07" are different keys and the same token.
    return invalid_field(field.name, field.name + ": a token id stands there twice");
  }
  return std::nullopt;
}

Refusal GenerationReader::read_stream_options(const Field& field) {
  const auto* object = field.value.as_object();
  if (object == nullptr) {
    return wrong(field, "an object");
  }
  has_stream_options_ = true;
  std::optional<bool> include_usage;
  for (const auto& [key, value] : *object) {
    const Field option{"stream_options." + key, value};
    Refusal refusal;
    bool obfuscation = false;
    if (value.is_null()) {
      continue;
    }
    if (key == "include_usage") {
      refusal = read_bool(option, &include_usage.emplace());
    } else if (key == "continuous_usage_stats") {
      refusal = read_bool(option, &out_->continuous_usage_stats);
    } else if (key == "include_obfuscation") {
      refusal = read_bool(option, &obfuscation);
      if (!refusal && obfuscation) {
        refusal = unsupported(option.name, "events are not padded; send false");
      }
    } else {
      note_ignored(option.name, &out_->ignored_fields);
    }
    if (refusal) {
      return refusal;
    }
  }
  // Usage with every event is usage as well, unless that was declined.
  out_->include_usage = include_usage.value_or(out_->continuous_usage_stats);
  out_->continuous_usage_stats = out_->continuous_usage_stats && out_->include_usage;
  return std::nullopt;
}

Refusal GenerationReader::read_logprobs(const Field& field) {
  const bool is_chat = endpoint_ == Endpoint::kChat;
  if (field.name == "logprobs" && is_chat) {
    return read_bool(field, &logprobs_wanted_);
  }
  if (field.name == "top_logprobs" && !is_chat) {
    has_foreign_count_ = integer_of(field.value) != 0;
    if (has_foreign_count_) {
      note_ignored(field.name, &out_->ignored_fields);
    }
    return std::nullopt;
  }
  if (!is_chat && field.value.as_bool() != nullptr && !*field.value.as_bool()) {
    return std::nullopt;  // as chat has it
  }
  std::int64_t count = 0;
  if (auto refusal = read_int(field, {0, bounds_.top_logprobs_max}, &count)) {
    return refusal;
  }
  top_logprobs_ = count;
  logprobs_wanted_ = logprobs_wanted_ || !is_chat;
  return std::nullopt;
}

Refusal GenerationReader::finish() {
  if (logprobs_wanted_) {
    out_->top_logprobs = static_cast<std::uint32_t>(top_logprobs_.value_or(0));
  } else if (top_logprobs_.value_or(0) > 0) {
    return invalid_field("top_logprobs", "top_logprobs: needs logprobs to be true");
  } else if (has_foreign_count_) {
    return unsupported("top_logprobs", "it is called logprobs here");
  }
  if (has_stream_options_ && !out_->stream) {
    return invalid_field("stream_options", "stream_options: needs stream to be true");
  }
  if (out_->max_tokens && out_->min_tokens > *out_->max_tokens) {
    return invalid_field("min_tokens",
                         "min_tokens: expected at most " + out_->max_tokens_field + " (" +
                             std::to_string(*out_->max_tokens) + "), came " +
                             std::to_string(out_->min_tokens));
  }
  return std::nullopt;
}

}  // namespace phalanx::openai
