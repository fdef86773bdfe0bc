// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/checkpoint/config.h"
#include "phalanx/checkpoint/file_source.h"
#include "phalanx/tokenizer/tokenizer.h"
#include "phalanx/tokenizer/tokenizer_source.h"

namespace phalanx::checkpoint {

// A model on disk, memory-mapped: a Hugging Face folder, or a GGUF file with what lies beside it.
class ModelFolder final : public FileSource {
 public:
  // `path`: a folder, or a file, which is then taken for GGUF. Whether it is there shows when
  // something is opened.
  explicit ModelFolder(const std::string& path);

  [[nodiscard]] Result<std::unique_ptr<FileBytes>> open(const std::string& name) override;
  [[nodiscard]] bool has(const std::string& name) const override;
  [[nodiscard]] std::string gguf_name() const override { return gguf_name_; }
  [[nodiscard]] std::string describe(const std::string& name) const override;
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  std::string gguf_name_;
};

// What the tokenizer of the folder is made from, or the one in the metadata of the (first) GGUF
// file. Added tokens of a folder with ids from `model_tokens` on will be left out; 0: none.
//
// Blocks: reads files.
// Errors: as tokenizer::read_tokenizer_source; for a GGUF file those of gguf::File::parse, and
//         kInvalidArgument if its metadata is longer than kMaxGgufHeadBytes
[[nodiscard]] Result<tokenizer::TokenizerSource> tokenizer_source(ModelFolder& folder,
                                                                  std::uint32_t model_tokens = 0);

// The tokenizer that is made from it.
//
// Errors: as tokenizer_source() and tokenizer::load_tokenizer
[[nodiscard]] Result<std::unique_ptr<tokenizer::Tokenizer>> load_tokenizer(
    ModelFolder& folder, std::uint32_t model_tokens = 0);

// Whether a model of so many tokens can take whatever the tokenizer gives.
//
// Errors: kInvalidArgument  the vocabulary, or a token that stands around each text, goes beyond
[[nodiscard]] Status check_tokens(const tokenizer::Tokenizer& tokenizer,
                                  std::uint32_t model_tokens);

// Says which of its added tokens a tokenizer left out; it did.
[[nodiscard]] std::string left_out_text(const tokenizer::Tokenizer& tokenizer);

// What ends an answer: the tokens that the model's configuration names, and the tokenizer's own end
// token, which some models give nowhere else. Ascending.
//
// Errors: kInvalidArgument  more than step::kMaxEndTokens
[[nodiscard]] Result<std::vector<TokenId>> end_tokens(const GenerationDefaults& defaults,
                                                      const tokenizer::Tokenizer& tokenizer);

}  // namespace phalanx::checkpoint
