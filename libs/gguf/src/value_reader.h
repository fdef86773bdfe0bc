// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/base/result.h"
#include "phalanx/gguf/metadata.h"

#include "cursor.h"

namespace phalanx::gguf {

// Takes a type and its value, and checks every length in it.
// Errors: kDataLoss  truncated, a length that lies, an unknown type, a bool that is none, arrays
//                    nested deeper than kMaxArrayDepth
[[nodiscard]] Result<Value> read_value(Cursor& cursor);

}  // namespace phalanx::gguf
