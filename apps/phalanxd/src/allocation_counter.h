// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace phalanx::app {

// Calls of operator new in this process so far, from all threads: the proof that a step allocates
// nothing.
[[nodiscard]] std::uint64_t allocation_count();

}  // namespace phalanx::app
