// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace phalanx::tokenizer {

// Byte-level vocabularies spell each byte as one printable character: printable Latin-1 bytes as
// themselves, the other 68 as U+0100 … U+0143 in ascending order (a space is "Ġ").

// The bytes that `spelling` stands for; nothing if it holds a character outside the alphabet.
[[nodiscard]] std::optional<std::string> bytes_of_spelling(std::string_view spelling);

}  // namespace phalanx::tokenizer
