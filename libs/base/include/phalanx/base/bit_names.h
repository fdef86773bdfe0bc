// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace phalanx {

// The names of the bits that are set, lowest first, by blanks, as in "spawn disarm"; "-" for none.
// Bits without a name are left out.
// Threads: any.
[[nodiscard]] std::string bit_names(std::uint64_t bits, std::span<const std::string_view> names);

}  // namespace phalanx
