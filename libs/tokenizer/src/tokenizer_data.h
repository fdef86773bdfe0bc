// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "phalanx/tokenizer/tokenizer.h"

#include "added_tokens.h"
#include "bpe.h"
#include "pre_tokenizer.h"
#include "vocabulary.h"

namespace phalanx::tokenizer {

enum class Normalizer { kNone, kNfc };

struct Tokenizer::Data {
  Vocabulary vocabulary;
  std::unique_ptr<Bpe> bpe;
  // Added tokens come in two kinds, looked for in this order: in the text as given, and in what
  // lies between those after normalisation.
  AddedTokenFinder added_as_given;
  AddedTokenFinder added_normalized;
  Normalizer normalizer = Normalizer::kNone;
  PreTokenizer pre_tokenizer;
  std::vector<TokenId> prefix_ids;  // what add_special_tokens puts before and after
  std::vector<TokenId> suffix_ids;

  std::vector<NamedToken> named_tokens;
  std::string chat_template;
};

}  // namespace phalanx::tokenizer
