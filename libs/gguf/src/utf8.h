// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace phalanx::gguf {

// Whether `text` is well-formed UTF-8 (Unicode 15, table 3-7: no overlong forms, no surrogates).
[[nodiscard]] bool is_utf8(std::string_view text);

}  // namespace phalanx::gguf
