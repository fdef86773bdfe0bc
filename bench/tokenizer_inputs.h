// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx::bench {

struct TokenizerInput {
  std::string name;
  std::string text;
};

// English prose of about `bytes` bytes: words of a common vocabulary by Zipf's law, with the
// punctuation, capitals, numbers and line ends of ordinary text.
[[nodiscard]] TokenizerInput english_text(std::size_t bytes);

// A grid of hostile inputs of about `bytes` bytes each: every source of units (letters, scripts,
// marks, spaces, broken bytes, tokens of the vocabulary itself, …) × every length of a piece from
// one unit to the whole text, fresh units each time.
[[nodiscard]] std::vector<TokenizerInput> hostile_texts(const tokenizer::Tokenizer& tokenizer,
                                                        std::size_t bytes);

}  // namespace phalanx::bench
