// SPDX-License-Identifier: Apache-2.0
// What a tokenizer is made from, as a value: a process that may open no files gets it as bytes.
//
//   "PhxT"  u32 version  u32 kind, then for each part a u64 length and that many bytes:
//   kind 1: origin, tokenizer.json, tokenizer_config.json, chat template, template for tools; then
//           u32 tokens of the model
//   kind 2: origin, head of a GGUF file, chat template, template for tools
//
// All numbers are little endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "phalanx/base/result.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx::tokenizer {

inline constexpr std::uint32_t kTokenizerSourceVersion = 2;
inline constexpr std::size_t kMaxOriginBytes = 4096;
// Tokens and merges of kMaxTokenizerBytes each, with their lengths, and the keys about the model.
inline constexpr std::size_t kMaxGgufHeadBytes = 4 * kMaxTokenizerBytes;

// The texts of a Hugging Face folder, as load_tokenizer_from_text() takes them.
struct TokenizerTexts {
  std::string tokenizer_json;
  std::string config_json;         // empty: there is none
  TemplateSources templates;       // those that stand in files of their own
  std::uint32_t model_tokens = 0;  // as load_tokenizer_from_text() takes it
};

// The first gguf::File::metadata_bytes() bytes of a GGUF file: no entry of a tensor, no data.
struct GgufHead {
  std::string bytes;
  TemplateSources templates{};  // with a source they stand for those that the file names
};

// Everything that a tokenizer and its chat templates are made from. Nothing in it is checked but
// its size: it is as hostile as the files.
struct TokenizerSource {
  std::string origin;  // the folder or file that it was read from, for messages
  std::variant<TokenizerTexts, GgufHead> content;
};

// Reads the files of a model folder that load_tokenizer(folder) names.
//
// Blocks: reads files.
// Errors: kNotFound         no tokenizer.json, or one of the files is a link that leads nowhere
//         kInvalidArgument  a file is too long or no regular file, or chat_template.json is not what
//                           it must be
//         kDataLoss         a file is empty
//         else as os::read_file(); each names the file
[[nodiscard]] Result<TokenizerSource> read_tokenizer_source(const std::filesystem::path& folder);

// `source` as bytes. tokenizer_source_from() takes them if no part is longer than its kMax…Bytes.
[[nodiscard]] std::string to_bytes(const TokenizerSource& source);

// What to_bytes() was given. No more is allocated than `bytes` has.
//
// Errors: kDataLoss         no such source, truncated, or bytes behind its end
//         kInvalidArgument  a part that is longer than its kMax…Bytes
//         kUnimplemented    another version
//         Each says what was expected and what was found.
[[nodiscard]] Result<TokenizerSource> tokenizer_source_from(std::string_view bytes);

// Makes the tokenizer, without opening a file. The source is not needed afterwards.
//
// Errors: as the load_tokenizer() of the folder or the metadata that it was read from, in the
//         context of its origin; for a GGUF file also those of gguf::parse_metadata
[[nodiscard]] Result<std::unique_ptr<Tokenizer>> load_tokenizer(const TokenizerSource& source);

}  // namespace phalanx::tokenizer
