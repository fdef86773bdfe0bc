// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "phalanx/base/result.h"

#include "added_tokens.h"
#include "tokenizer_data.h"
#include "vocabulary_file.h"

namespace phalanx::tokenizer {

// The three steps of loading, each in a file of its own. All errors name the field.

// tokenizer.json: everything but named tokens and template. `added` receives its added tokens.
[[nodiscard]] Status read_tokenizer_json(std::string_view json,
                                         Tokenizer::Data& data,
                                         std::vector<AddedToken>& added);

// Puts the token into the vocabulary, which decides whether it is special.
//
// Errors: kInvalidArgument  its id stands for something else
[[nodiscard]] Status insert_added_token(AddedToken& token, Tokenizer::Data& data);

// The end of reading a vocabulary: makes what encodes pieces.
[[nodiscard]] Status finish_vocabulary(VocabularyFile& file, Tokenizer::Data& data);

// The vocabulary and merges of tokenizer.json's model, and its options.
[[nodiscard]] Status read_bpe_model(std::string_view model_json,
                                    Spelling spelling,
                                    VocabularyFile& file);

// tokenizer_config.json: named tokens, template, and what it says of added tokens, which counts
// more than what tokenizer.json says. Names and special tokens come without ids.
struct ConfigFile {
  std::vector<NamedToken> named_tokens;
  std::vector<AddedToken> added;
  std::vector<AddedToken> special;  // named ones, and additional ones without a name
  TemplateSources templates;
  // What stands around a text instead of what tokenizer.json says: in the tokenizer classes of
  // Llama of transformers, which take no notice of that. The roles' tokens.
  struct Around {
    bool bos = true;
    bool eos = false;
  };
  std::optional<Around> around;
};
[[nodiscard]] Result<ConfigFile> read_tokenizer_config(std::string_view json);

// chat_template.json: the templates alone, as the config holds them.
[[nodiscard]] Result<TemplateSources> read_template_json(std::string_view json);

}  // namespace phalanx::tokenizer
