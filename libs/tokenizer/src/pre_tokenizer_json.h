// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/base/result.h"

#include "json_fields.h"
#include "pre_tokenizer.h"

namespace phalanx::tokenizer {

// The pre_tokenizer of tokenizer.json: ByteLevel, or a Sequence of Split, Digits and one ByteLevel
// at its end.
[[nodiscard]] Result<PreTokenizer> read_pre_tokenizer(const Json& component);

}  // namespace phalanx::tokenizer
