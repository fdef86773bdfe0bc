// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/dispatch/generation.h"
#include "phalanx/serving/stop_scanner.h"
#include "phalanx/step/sampling.h"
#include "phalanx/tokenizer/incremental_decoder.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx::serving {

// How the tokens of a request become the text that its client sees.
struct TextOptions {
  std::vector<std::string> stop_strings;
  // Stop tokens that the client asked for and that are no end-of-sequence of the model; ascending.
  std::vector<TokenId> own_stop_tokens;
  bool include_stop_in_output = false;  // show the stop string or stop token that ends the choice
  bool skip_special_tokens = true;
  std::uint32_t min_tokens = 0;  // no stop string that ends before so many tokens ends a choice
};

// What a client asked for: the tokens to generate, and their text.
struct GenerationRequest {
  dispatch::Generation generation;
  TextOptions text;
  std::uint64_t booked_tokens = 0;  // what admission counts: the prompt, and what its choices may
                                    // produce
};

// One token as the client sees it. Exactly one per token, in order; the text may be empty.
struct TextEvent {
  std::string text;
  // Characters of the text of the tokens before it, also of what stop strings hold back. A
  // character whose last byte is of this token counts to this one.
  std::size_t offset = 0;
  step::FinishReason finish = step::FinishReason::kNone;  // kStop or kLength with the last token
  std::variant<std::monostate, TokenId, std::string>
      stopped_by;  // with kStop: the stop token (not end-of-sequence) or string
  // Ended by a stop string: only this side knows, the dispatcher is to be told.
  bool to_stop = false;
};

// The text of one choice.
//
// Ownership: borrows the tokenizer.
// Threads: one.
class TextChoice {
 public:
  TextChoice(const TextOptions& options, const tokenizer::Tokenizer& tokenizer);

  // The token at `position` of the choice, which ends with it if there is a `finish`. Must not be
  // called once finished.
  [[nodiscard]] TextEvent push(std::uint32_t position, TokenId token, step::FinishReason finish);

  // As push() of each, of which none ends the choice, for who wants neither their text nor offsets
  // from here on. False: nothing is done, as stop strings have to see all of it.
  [[nodiscard]] bool skip(std::span<const TokenId> tokens);

  [[nodiscard]] bool finished() const { return finished_; }

 private:
  std::uint32_t min_tokens_;
  bool include_stop_in_output_;
  std::vector<TokenId> own_stop_tokens_;
  tokenizer::IncrementalDecoder decoder_;
  StopScanner scanner_;
  std::size_t characters_ = 0;  // decoded so far
  bool finished_ = false;
};

}  // namespace phalanx::serving
