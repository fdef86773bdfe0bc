// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/result.h"

#include "bpe.h"
#include "vocabulary.h"

namespace phalanx::tokenizer {

// How a file writes the bytes that a token stands for.
enum class Spelling {
  kByteLevel,   // in the byte alphabet (byte_alphabet.h)
  kSpaceMarks,  // with U+2581 for a space; single bytes as "<0x0A>"
  kAsGiven,     // as they are; single bytes as "<0x0A>"
};

// "left right": the two tokens that a merge names.
using MergeText = std::pair<std::string_view, std::string_view>;
[[nodiscard]] Result<MergeText> split_merge(std::string_view text);

// A vocabulary as a file builds it up, token by token, then merge by merge.
struct VocabularyFile {
  explicit VocabularyFile(Vocabulary& target) : vocabulary(target) { byte_tokens.fill(-1); }

  Vocabulary& vocabulary;
  std::vector<Bpe::Merge> merges;
  Bpe::Options options;
  std::array<TokenId, 256> byte_tokens;  // of "<0x00>" …; -1: none

  // A token of the model. A token that no text leads to (spelled outside the byte alphabet, of a
  // single byte "<0x0A>", or `reachable` false) stands for its text but is not found by it: it
  // could hide the one that is meant.
  //
  // Errors: kInvalidArgument  the id or the spelling is out of bounds, or is there already
  [[nodiscard]] Status add(std::int64_t id,
                           std::string_view spelling,
                           Spelling kind,
                           bool reachable = true);

  // A merge with the next rank.
  //
  // Errors: kInvalidArgument  a side or the result is not in the vocabulary, or there are too many
  [[nodiscard]] Status add_merge(const MergeText& text, Spelling kind);
  // Errors: kInvalidArgument  there are too many
  [[nodiscard]] Status add_merge(const Bpe::Merge& merge);

  // Errors: kInvalidArgument  a byte has no token
  [[nodiscard]] Status use_byte_fallback();

  // Whether pieces may be cut before every run of spaces that follows something else, because no
  // token has a space in its midst or at its end behind something else.
  [[nodiscard]] bool cuts_at_spaces() const;
};

}  // namespace phalanx::tokenizer
