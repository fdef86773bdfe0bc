// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "phalanx/base/result.h"

#include "added_tokens.h"
#include "tokenizer_data.h"

namespace phalanx::tokenizer {

inline constexpr const char* kTokenizerFile = "tokenizer.json";
inline constexpr const char* kConfigFile = "tokenizer_config.json";

// Errors: kInvalidArgument  more than `bytes_max`
[[nodiscard]] Status check_size(std::size_t bytes, std::size_t bytes_max);

// Takes those that the model has no room for out of `added`, and adds them to data.left_out.
void leave_out_beyond_model(Tokenizer::Data& data, std::vector<AddedToken>& added);

// The end of loading, whatever the file: checks the chat template and makes what finds `added`.
//
// Errors: kInvalidArgument  the template is too long or not UTF-8, or added tokens are too long
[[nodiscard]] Result<std::unique_ptr<Tokenizer>> finish_tokenizer(
    std::unique_ptr<Tokenizer::Data> data, std::vector<AddedToken> added);

}  // namespace phalanx::tokenizer
