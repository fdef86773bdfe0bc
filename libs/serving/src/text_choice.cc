// SPDX-License-Identifier: Apache-2.0
#include "phalanx/serving/text_choice.h"

#include <utility>

#include "phalanx/base/check.h"
#include "phalanx/openai/responses.h"
#include "phalanx/step/sampling.h"

namespace phalanx::serving {

TextChoice::TextChoice(const TextOptions& options, const tokenizer::Tokenizer& tokenizer)
    : min_tokens_(options.min_tokens),
      tokenizer_(&tokenizer),
      decoder_(tokenizer, {.skip_special = options.skip_special_tokens, .continues = true}),
      scanner_(options.stop_strings, options.include_stop_in_output) {}

TextEvent TextChoice::push(std::uint32_t position, TokenId token, step::FinishReason finish) {
  PHALANX_CHECK(!finished_, "a finished choice has no further text");
  TextEvent event;
  std::string piece = decoder_.push(token);
  event.offset = characters_ + decoder_.earlier_characters();
  characters_ += openai::character_count(piece);
  if (finish != step::FinishReason::kNone) {
    piece += decoder_.finish();
  }
  StopScanner::Output output = scanner_.push(piece, position + 1 >= min_tokens_);
  event.text = std::move(output.text);
  finished_ = output.match || finish != step::FinishReason::kNone;
  if (output.match) {
    event.finish = step::FinishReason::kStop;
    event.stopped_by = *std::move(output.match);
    event.to_stop = finish == step::FinishReason::kNone;
    return event;
  }
  event.finish = finish;
  if (finished_) {
    event.text += scanner_.finish();
    if (finish == step::FinishReason::kStop && !tokenizer_->is_special(token)) {
      event.stopped_by = token;
    }
  }
  return event;
}

}  // namespace phalanx::serving
