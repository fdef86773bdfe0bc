// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/dispatch/generation.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::dispatch {

// One choice of a request in flight: the tokens produced and the attempt that goes on. Lives from
// the start to the end, whatever happens to replicas.
//
// Threads: one.
class Choice {
 public:
  Choice(std::uint32_t index, const Generation& generation);

  // A token is accepted only at exactly the next position. An earlier one is a repeat.
  enum class Verdict { kAccepted, kRepeat, kGap };
  [[nodiscard]] Verdict judge(const wire::TokenUpdate& update) const;

  // Appends the token of an update that was judged kAccepted; the event lacks its request.
  [[nodiscard]] TokenEvent accept(const wire::TokenUpdate& update);

  // The choice ends with the token at `position`; later ones are forgotten.
  void stop(std::uint32_t position);

  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] bool finished() const { return finish_ != step::FinishReason::kNone; }
  [[nodiscard]] const std::vector<TokenId>& produced() const { return produced_; }
  [[nodiscard]] std::uint32_t to_generate() const;

  // The number of the current attempt; 0 before the first dispatch.
  Attempt attempt;

 private:
  std::uint32_t index_;
  std::uint32_t max_tokens_;
  std::uint32_t min_tokens_;
  std::vector<TokenId> stop_token_ids_;  // ascending
  std::vector<TokenId> produced_;
  std::uint32_t cached_tokens_ = 0;  // as told with the first token
  step::FinishReason finish_ = step::FinishReason::kNone;
};

}  // namespace phalanx::dispatch
