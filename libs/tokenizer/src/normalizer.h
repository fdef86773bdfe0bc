// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "phalanx/base/byte_ranges.h"

#include "nfc.h"

namespace phalanx::tokenizer {

// SentencePiece vocabularies write a space as U+2581. Here it is the other way round: vocabulary
// and text are brought to the space, so that a token's bytes are the text that it stands for. (In
// such a text the two cannot be told apart, there as here.)
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// `text` with a space for every mark.
[[nodiscard]] std::string without_space_marks(std::string_view text);

// What a tokenizer does to text before it looks for the last added tokens.
struct Normalizer {
  bool nfc = false;
  bool prepend_space = false;  // to every part that is not empty
  bool space_marks = false;    // become spaces

  // Whether apply() gives `text` back, for sure; false for some texts that it does not change.
  [[nodiscard]] bool keeps(std::string_view text) const;

  // Marked ranges follow their text as in normalize_nfc(). What is prepended is not marked.
  [[nodiscard]] NormalizedText apply(std::string_view text,
                                     const ByteRanges& marked,
                                     std::size_t offset) const;

  // apply() of a text without marks.
  [[nodiscard]] std::string apply(std::string_view text) const;
};

}  // namespace phalanx::tokenizer
