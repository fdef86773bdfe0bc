// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/choice.h"

#include <algorithm>

#include "phalanx/base/check.h"
#include "phalanx/step/sampling.h"

namespace phalanx::dispatch {

Choice::Choice(std::uint32_t index, const Generation& generation)
    : index_(index),
      max_tokens_(generation.stop.max_tokens),
      min_tokens_(generation.sampling.min_tokens),
      stop_token_ids_(generation.stop.stop_token_ids) {}

std::uint32_t Choice::to_generate() const {
  return finished() ? 0 : max_tokens_ - static_cast<std::uint32_t>(produced_.size());
}

Choice::Verdict Choice::judge(const wire::TokenUpdate& update) const {
  if (update.position == produced_.size() && !finished()) {
    return Verdict::kAccepted;
  }
  return update.position < produced_.size() || finished() ? Verdict::kRepeat : Verdict::kGap;
}

TokenEvent Choice::accept(const wire::TokenUpdate& update) {
  PHALANX_CHECK(judge(update) == Verdict::kAccepted, "only the next token is accepted");
  TokenEvent event;
  event.choice = index_;
  event.position = update.position;
  event.token = update.token;
  event.logprob = update.logprob;
  event.top_logprobs = update.top_logprobs;
  if (update.position == 0) {
    cached_tokens_ = update.cached_tokens;
  }
  event.cached_tokens = cached_tokens_;
  produced_.push_back(update.token);
  if (produced_.size() >= min_tokens_ &&
      std::binary_search(stop_token_ids_.begin(), stop_token_ids_.end(), update.token)) {
    finish_ = step::FinishReason::kStop;
  } else if (produced_.size() >= max_tokens_) {
    finish_ = step::FinishReason::kLength;
  }
  event.finish = finish_;
  return event;
}

void Choice::stop(std::uint32_t position) {
  PHALANX_CHECK(position < produced_.size(), "a choice ends at a token that it has");
  produced_.resize(position + std::size_t{1});
  finish_ = step::FinishReason::kStop;
}

}  // namespace phalanx::dispatch
