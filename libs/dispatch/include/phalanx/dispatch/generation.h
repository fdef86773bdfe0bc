// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/error.h"
#include "phalanx/base/ids.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::dispatch {

// What is to be generated, complete: with the seed drawn, so that it can be run again anywhere from
// here on. Knows tokens only; text and stop strings belong to the sink.
struct Generation {
  std::string label;  // X-Request-Id, for logs
  std::vector<TokenId> prompt_ids;
  step::SamplingParams sampling;
  step::StopParams stop;
  std::uint32_t choices = 1;  // n
  std::string cache_salt;     // KV is shared with requests of the same salt only
};

// One sampled token. Exactly one event per token and choice, in the order of positions.
struct TokenEvent {
  std::uint32_t choice = 0;
  std::uint32_t position = 0;  // 0 is the first generated token
  TokenId token = 0;
  std::optional<float> logprob;
  std::vector<step::TokenLogprob> top_logprobs;
  std::uint32_t cached_tokens = 0;  // of the prompt, not computed for this choice; constant
  // With the first token, else zero: from submit() to the step that the attempt which gave it was
  // first in, whatever attempts had failed before; and from there to the token.
  Duration queue_time{};
  Duration prefill_time{};
  step::FinishReason finish = step::FinishReason::kNone;  // kStop (a stop token) or kLength with
                                                          // the last token
};

// Hears about one request. Called on the loop thread. After a request's last event nothing is
// called any more. A sink that finds the end of a choice by itself calls Dispatcher::stop(), from
// within on_token too; what still comes of that choice beyond the stop is neither shown nor
// counted.
class GenerationSink {
 public:
  GenerationSink() = default;
  GenerationSink(const GenerationSink&) = delete;
  GenerationSink& operator=(const GenerationSink&) = delete;
  virtual ~GenerationSink() = default;

  // An attempt of a choice is on its way. The only call that comes from within submit(); calls
  // nothing of the dispatcher.
  virtual void on_sent(ReplicaId /*replica*/, Attempt /*attempt*/) {}
  virtual void on_token(const TokenEvent& event) = 0;
  virtual void on_done() = 0;                     // every choice has finished
  virtual void on_error(const Error& error) = 0;  // instead of on_done
};

}  // namespace phalanx::dispatch
