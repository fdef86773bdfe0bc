// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace phalanx {

// `text`, which may hold any bytes, as it can be put on a terminal: on one line, and nothing in it
// moves the cursor, sets colours or a title, or changes the order in which the rest is read.
// Control characters, what steers the direction of writing, separators of lines and invisible
// format characters become \u{…}; bytes that are no UTF-8 become \x…. Everything else stays as it
// is.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace phalanx
