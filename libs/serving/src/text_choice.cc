// SPDX-License-Identifier: Apache-2.0
#include "phalanx/serving/text_choice.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/check.h"
#include "phalanx/base/utf8.h"
#include "phalanx/step/sampling.h"

namespace phalanx::serving {

TextChoice::TextChoice(const TextOptions& options, const tokenizer::Tokenizer& tokenizer)
    : min_tokens_(options.min_tokens),
      include_stop_in_output_(options.include_stop_in_output),
      own_stop_tokens_(options.own_stop_tokens),
      decoder_(tokenizer, {.skip_special = options.skip_special_tokens, .continues = true}),
      scanner_(options.stop_strings, options.include_stop_in_output) {}

TextEvent TextChoice::push(std::uint32_t position, TokenId token, step::FinishReason finish) {
  PHALANX_CHECK(!finished_, "a finished choice has no further text");
  TextEvent event;
  const bool is_shown = finish != step::FinishReason::kStop || include_stop_in_output_;
  std::string piece = is_shown ? decoder_.push(token) : std::string();
  event.offset = characters_ + (is_shown ? decoder_.earlier_characters() : 0);
  characters_ += count_code_points(piece);
  if (finish != step::FinishReason::kNone) {
    piece += decoder_.finish();
  }
  StopScanner::Output output = scanner_.push(std::move(piece), position + 1 >= min_tokens_);
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
    if (finish == step::FinishReason::kStop &&
        std::binary_search(own_stop_tokens_.begin(), own_stop_tokens_.end(), token)) {
      event.stopped_by = token;
    }
  }
  return event;
}

bool TextChoice::skip(std::span<const TokenId> tokens) {
  PHALANX_CHECK(!finished_, "a finished choice has no further text");
  if (!scanner_.is_idle()) {
    return false;
  }
  decoder_.skip(tokens);
  return true;
}

}  // namespace phalanx::serving
