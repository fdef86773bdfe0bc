// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>

#include "phalanx/step/limits.h"
#include "phalanx/step/sampling.h"
#include "phalanx/step/sampling_rules.h"

#include "archive.h"

namespace phalanx::wire {

// Those who send only what step::narrowed() gave never send a denormal; one that comes all the same
// is what ranks would take for zero.
template <typename Archive, typename Value>
void real_by_rule(Archive& archive, const step::RealRule& rule, Value& value) {
  archive.real(rule.name, value, static_cast<float>(rule.low), static_cast<float>(rule.high));
}

template <typename Archive, Like<step::SamplingParams> Message>
void fields(Archive& archive, Message& message) {
  real_by_rule(archive, step::kTemperatureRule, message.temperature);
  archive.number("top_k", message.top_k, 0, std::numeric_limits<std::int32_t>::max());
  real_by_rule(archive, step::kTopPRule, message.top_p);
  real_by_rule(archive, step::kMinPRule, message.min_p);
  real_by_rule(archive, step::kRepetitionPenaltyRule, message.repetition_penalty);
  real_by_rule(archive, step::kPresencePenaltyRule, message.presence_penalty);
  real_by_rule(archive, step::kFrequencyPenaltyRule, message.frequency_penalty);
  archive.number("seed", message.seed);
  archive.id_values("logit_bias", message.logit_bias, step::kMaxLogitBias);
  archive.number(
      "top_logprobs", message.top_logprobs, -1, static_cast<std::int32_t>(step::kMaxTopLogprobs));
  archive.number("min_tokens", message.min_tokens);
  for (std::size_t i = 0; i < message.logit_bias.size(); ++i) {
    const auto& [token, bias] = message.logit_bias[i];
    archive.require(step::kLogitBiasRule.allows(bias), "logit_bias", "values from -100 to 100");
    archive.require(
        i == 0 || message.logit_bias[i - 1].first < token, "logit_bias", "ascending token ids");
  }
}

template <typename Archive, Like<step::StopParams> Message>
void fields(Archive& archive, Message& message) {
  archive.number("max_tokens", message.max_tokens, 1, std::numeric_limits<std::uint32_t>::max());
  archive.words("stop_token_ids", message.stop_token_ids, step::kMaxStopTokens);
  archive.boolean("ignore_eos", message.ignore_eos);
  archive.require(std::is_sorted(message.stop_token_ids.begin(), message.stop_token_ids.end()),
                  "stop_token_ids",
                  "ascending token ids");
}

}  // namespace phalanx::wire
