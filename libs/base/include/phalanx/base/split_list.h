// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace phalanx {

// "a, b" → "a" and "b", without the blanks around them; empty pieces are left out.
[[nodiscard]] std::vector<std::string> split_list(const std::string& text);

}  // namespace phalanx
