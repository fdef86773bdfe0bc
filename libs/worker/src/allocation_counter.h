// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace phalanx::worker {

// Calls of operator new by the calling thread so far: the proof that a step allocates nothing. Per
// thread, because the messaging library's own thread allocates whenever a frame passes.
[[nodiscard]] std::uint64_t allocation_count();

}  // namespace phalanx::worker
