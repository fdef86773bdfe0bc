// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/tokenizer/tokenizer.h"

#include "added_tokens.h"
#include "bpe.h"
#include "normalizer.h"
#include "pre_tokenizer.h"
#include "vocabulary.h"

namespace phalanx::tokenizer {

// A pre-tokenizer that turns marks into spaces and puts one before a part that begins with none.
struct Metaspace {
  enum class Prepend { kNever, kFirst, kAlways };  // kFirst: to a part at the start of the text
  Prepend prepend = Prepend::kNever;
};

struct Tokenizer::Data {
  std::uint32_t model_tokens = 0;  // ids that the model has; 0: not known
  std::vector<std::string> left_out;
  Vocabulary vocabulary;
  std::unique_ptr<Bpe> bpe;
  // Added tokens come in two kinds, looked for in this order: in the text as given, and in what
  // lies between those after normalisation.
  AddedTokenFinder added_as_given;
  AddedTokenFinder added_normalized;
  Normalizer normalizer;
  std::optional<Metaspace> metaspace;
  PreTokenizer pre_tokenizer;
  bool strip_first_space = false;   // in decoding: one at the start of the text
  std::vector<TokenId> prefix_ids;  // what add_special_tokens puts before and after
  std::vector<TokenId> suffix_ids;

  std::vector<NamedToken> named_tokens;
  TemplateSources templates;

  // What the vocabulary has for a token that the files write as `content`: there a mark is a space.
  [[nodiscard]] std::string stored(std::string_view content) const {
    return has_space_marks() ? without_space_marks(content) : std::string(content);
  }
  // Whether the files write spaces of the vocabulary as marks.
  [[nodiscard]] bool has_space_marks() const {
    return normalizer.space_marks || metaspace.has_value();
  }
};

}  // namespace phalanx::tokenizer
