// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/ids.h"

namespace phalanx::step {

// The numbers of SamplingParams: plain memory, as the sequence table of a rank keeps them.
struct SamplingNumbers {
  float temperature = 1.0F;  // below kGreedyTemperature: the largest logit, ties to the lower id
  std::int32_t top_k = 0;    // 0 = all
  float top_p = 1.0F;
  float min_p = 0.0F;
  float repetition_penalty = 1.0F;  // over prompt and produced tokens
  float presence_penalty = 0.0F;    // over produced tokens
  float frequency_penalty = 0.0F;   // over produced tokens
  std::uint64_t seed = 0;  // always present: the leader draws one when the client gave none
  std::int32_t top_logprobs =
      -1;  // -1 = no logprobs; 0 … 20 = that of the token and of so many likeliest
  // End-of-sequence and stop tokens are masked before so many are produced.
  std::uint32_t min_tokens = 0;

  friend bool operator==(const SamplingNumbers&, const SamplingNumbers&) = default;
};

inline constexpr float kGreedyTemperature = 1e-5F;

// How the next token of a sequence is chosen (docs/arithmetic.md, "Sampling"). Complete: nothing
// else about a request changes its tokens. Order of application: penalties and bias on the raw
// logits, temperature, top_k, top_p, min_p, draw. Ranges: sampling_rules.h.
struct SamplingParams : SamplingNumbers {
  std::vector<std::pair<TokenId, float>> logit_bias{};  // ascending ids

  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

// When a sequence ends, as far as tokens can tell. Stop strings are the leader's.
struct StopParams {
  std::uint32_t max_tokens = 16;  // produced tokens, ≥ 1
  std::vector<TokenId>
      stop_token_ids{};     // end-of-sequence ids of the model and the request's own; ascending
  bool ignore_eos = false;  // stop_token_ids then holds only the request's own

  friend bool operator==(const StopParams&, const StopParams&) = default;
};

enum class FinishReason : std::uint8_t {
  kNone = 0,
  kStop = 1,
  kLength = 2,
  kCancelled = 3,
  kError = 4
};
// "stop", "length", "cancelled", "error"; "" while there is none.
[[nodiscard]] constexpr std::string_view finish_name(FinishReason reason) {
  constexpr std::string_view kNames[] = {"", "stop", "length", "cancelled", "error"};
  return kNames[static_cast<std::size_t>(reason)];
}

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0.0F;  // log-softmax of the raw logits

  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

}  // namespace phalanx::step
