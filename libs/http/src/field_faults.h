// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace phalanx::http {

// What is wrong with the value of a field that the parser has refused, as a message: what was
// expected and what came. `bytes` begin where its line does and may go on behind it. Values that
// may be secret are not repeated.
[[nodiscard]] std::string fault_of_field(std::string_view bytes);

}  // namespace phalanx::http
