// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/ids.h"
#include "phalanx/serving/stop_scanner.h"
#include "phalanx/tokenizer/incremental_decoder.h"
#include "phalanx/tokenizer/tokenizer.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::serving {

// What a client asked for, complete: with the seed drawn, so that it can be run again anywhere from
// here on.
struct GenerationRequest {
  std::string label;  // X-Request-Id, for logs
  std::vector<TokenId> prompt_ids;
  wire::SamplingParams sampling;
  wire::StopParams stop;
  std::vector<std::string> stop_strings;
  bool include_stop_in_output = false;
  bool skip_special_tokens = true;
  std::uint32_t choices = 1;  // n
};

// One sampled token as the client sees it. Exactly one event per token, in order; the text may be
// empty.
struct TokenEvent {
  std::uint32_t choice = 0;
  TokenId token = 0;
  std::string text;
  std::optional<float> logprob;
  std::vector<wire::TokenLogprob> top_logprobs;
  wire::FinishReason finish = wire::FinishReason::kNone;  // kStop or kLength with the last token
  std::variant<std::monostate, TokenId, std::string>
      stopped_by;  // with kStop: the stop token (not end-of-sequence) or string
};

// Hears about one request. Called on the loop thread. After a request's last event nothing is
// called any more.
class GenerationSink {
 public:
  GenerationSink() = default;
  GenerationSink(const GenerationSink&) = delete;
  GenerationSink& operator=(const GenerationSink&) = delete;
  virtual ~GenerationSink() = default;

  virtual void on_token(const TokenEvent& event) = 0;
  virtual void on_done() = 0;                     // every choice has finished
  virtual void on_error(const Error& error) = 0;  // instead of on_done
};

// One choice of a request in flight: what has been produced, by which attempt, and how its text
// stands. Lives in the leader from the start to the end, whatever happens to replicas.
//
// Ownership: borrows the tokenizer. Threads: one.
class Choice {
 public:
  Choice(std::uint32_t index,
         const GenerationRequest& request,
         const tokenizer::Tokenizer& tokenizer);

  // A token is accepted only at exactly the next position. An earlier one is a repeat.
  enum class Verdict { kAccepted, kRepeat, kGap };
  [[nodiscard]] Verdict judge(const wire::TokenUpdate& update) const;

  // Appends the token of an update that was judged kAccepted and tells what the client sees of it.
  [[nodiscard]] TokenEvent accept(const wire::TokenUpdate& update);

  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] bool finished() const { return finish_ != wire::FinishReason::kNone; }
  [[nodiscard]] wire::FinishReason finish() const { return finish_; }
  [[nodiscard]] const std::vector<TokenId>& produced() const { return produced_; }
  [[nodiscard]] std::uint32_t to_generate() const;

  // The number of the current attempt; 0 before the first dispatch.
  Attempt attempt;

 private:
  std::uint32_t index_;
  std::uint32_t max_tokens_;
  std::uint32_t min_tokens_;
  std::vector<TokenId> stop_token_ids_;
  const tokenizer::Tokenizer* tokenizer_;
  tokenizer::IncrementalDecoder decoder_;
  StopScanner scanner_;
  std::vector<TokenId> produced_;
  wire::FinishReason finish_ = wire::FinishReason::kNone;
};

}  // namespace phalanx::serving
