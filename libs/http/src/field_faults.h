// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace phalanx::http {

// What is wrong with a line of a header that the parser has refused, as a message: what was
// expected and what came. `bytes` begin where the line does and may go on behind it. Values that
// may be secret are not repeated.
[[nodiscard]] std::string fault_of_field(std::string_view bytes);

}  // namespace phalanx::http
