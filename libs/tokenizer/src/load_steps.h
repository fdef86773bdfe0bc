// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "phalanx/base/result.h"

#include "added_tokens.h"
#include "tokenizer_data.h"

namespace phalanx::tokenizer {

// The end of loading, whatever the file: checks the chat template and makes what finds `added`.
//
// Errors: kInvalidArgument  the template is too long or not UTF-8
[[nodiscard]] Result<std::unique_ptr<Tokenizer>> finish_tokenizer(
    std::unique_ptr<Tokenizer::Data> data, std::vector<AddedToken> added);

}  // namespace phalanx::tokenizer
