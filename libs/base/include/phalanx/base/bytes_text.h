// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace phalanx {

// A size for people to read, in the largest binary unit that it has one of, with two places:
// "512 B", "1.25 GiB".
// Threads: any.
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

}  // namespace phalanx
