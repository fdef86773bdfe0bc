// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "phalanx/base/result.h"

#include "components.h"
#include "pre_tokenizer.h"
#include "tokenizer_data.h"

namespace phalanx::tokenizer {

// The pre_tokenizer of tokenizer.json: ByteLevel, a Sequence of Split, Digits and one ByteLevel at
// its end, Metaspace, or null.
struct PreTokenizerFile {
  PreTokenizer pre_tokenizer;
  bool byte_level = false;
  std::optional<Metaspace> metaspace;
};
[[nodiscard]] Result<PreTokenizerFile> read_pre_tokenizer(const Json& component);

// The expression of GPT-2, which ByteLevel applies if it is not told otherwise.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace phalanx::tokenizer
