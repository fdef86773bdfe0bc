// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace phalanx::json {

// Which characters stand in a JSON string as they are; the others are \uXXXX.
enum class Characters { kUtf8, kAscii };

// Appends `text` as it stands between the quotes of a JSON string, as Python's json.dumps writes it
// (kUtf8: ensure_ascii=False). A byte that belongs to no valid character counts as U+FFFD.
// Cost: linear; text without escapes is copied in stretches.
void append_escaped(std::string_view text, Characters characters, std::string& out);

}  // namespace phalanx::json
