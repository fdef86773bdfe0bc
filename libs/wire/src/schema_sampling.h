// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>

#include "phalanx/wire/sampling.h"

#include "archive.h"

namespace phalanx::wire {

inline constexpr float kLargestFloat = std::numeric_limits<float>::max();

template <typename Archive, Like<SamplingParams> Message>
void fields(Archive& archive, Message& message) {
  archive.real("temperature", message.temperature, 0.0F, kLargestFloat);
  archive.number("top_k", message.top_k, 0, std::numeric_limits<std::int32_t>::max());
  archive.real("top_p", message.top_p, 0.0F, 1.0F);
  archive.real("min_p", message.min_p, 0.0F, 1.0F);
  archive.real("repetition_penalty", message.repetition_penalty, 0.0F, kLargestFloat);
  archive.real("presence_penalty", message.presence_penalty, -2.0F, 2.0F);
  archive.real("frequency_penalty", message.frequency_penalty, -2.0F, 2.0F);
  archive.number("seed", message.seed);
  archive.id_values("logit_bias", message.logit_bias, kMaxLogitBias);
  archive.number(
      "top_logprobs", message.top_logprobs, -1, static_cast<std::int32_t>(kMaxTopLogprobs));
  archive.number("min_tokens", message.min_tokens);
  archive.require(message.top_p > 0.0F, "top_p", "more than 0");
  archive.require(message.repetition_penalty > 0.0F, "repetition_penalty", "more than 0");
  for (std::size_t i = 0; i < message.logit_bias.size(); ++i) {
    const auto& [token, bias] = message.logit_bias[i];
    archive.require(bias >= -kLargestFloat && bias <= kLargestFloat, "logit_bias", "finite values");
    archive.require(
        i == 0 || message.logit_bias[i - 1].first < token, "logit_bias", "ascending token ids");
  }
}

template <typename Archive, Like<StopParams> Message>
void fields(Archive& archive, Message& message) {
  archive.number("max_tokens", message.max_tokens, 1, std::numeric_limits<std::uint32_t>::max());
  archive.words("stop_token_ids", message.stop_token_ids, kMaxStopTokens);
  archive.boolean("ignore_eos", message.ignore_eos);
  archive.require(std::is_sorted(message.stop_token_ids.begin(), message.stop_token_ids.end()),
                  "stop_token_ids",
                  "ascending token ids");
}

}  // namespace phalanx::wire
