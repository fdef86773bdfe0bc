// SPDX-License-Identifier: Apache-2.0
#include "phalanx/serving/generation.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/check.h"

namespace phalanx::serving {

Choice::Choice(std::uint32_t index,
               const GenerationRequest& request,
               const tokenizer::Tokenizer& tokenizer)
    : index_(index),
      max_tokens_(request.stop.max_tokens),
      min_tokens_(request.sampling.min_tokens),
      stop_token_ids_(request.stop.stop_token_ids),
      tokenizer_(&tokenizer),
      decoder_(tokenizer, {.skip_special = request.skip_special_tokens, .continues = true}),
      scanner_(request.stop_strings, request.include_stop_in_output) {}

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
  produced_.push_back(update.token);
  TokenEvent event;
  event.choice = index_;
  event.token = update.token;
  event.logprob = update.logprob;
  event.top_logprobs = update.top_logprobs;

  const bool may_stop = produced_.size() >= min_tokens_;
  std::string piece = decoder_.push(update.token);
  if (may_stop) {
    StopScanner::Output output = scanner_.push(piece);
    event.text = std::move(output.text);
    if (output.match) {
      finish_ = event.finish = wire::FinishReason::kStop;
      event.stopped_by = *output.match;
      return event;
    }
  } else {
    event.text = std::move(piece);
  }

  const bool stop_token =
      may_stop && std::binary_search(stop_token_ids_.begin(), stop_token_ids_.end(), update.token);
  if (stop_token) {
    event.finish = wire::FinishReason::kStop;
    if (!tokenizer_->is_special(update.token)) {
      event.stopped_by = update.token;
    }
  } else if (produced_.size() >= max_tokens_) {
    event.finish = wire::FinishReason::kLength;
  }
  if (event.finish != wire::FinishReason::kNone) {
    finish_ = event.finish;
    StopScanner::Output tail = scanner_.push(decoder_.finish());
    event.text += tail.text + scanner_.finish();
  }
  return event;
}

}  // namespace phalanx::serving
