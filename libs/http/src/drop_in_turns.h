// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <utility>

#include "phalanx/os/event_loop.h"

namespace phalanx::http {

// Frees the rest of a large message some pieces in each turn of the loop: what the allocator gives
// back to the kernel costs time for every page of it.
inline void drop_in_turns(os::EventLoop& loop, std::deque<std::string> pieces) {
  constexpr std::size_t kBytesPerTurn = std::size_t{512} << 10;
  for (std::size_t dropped = 0; dropped < kBytesPerTurn && !pieces.empty(); pieces.pop_front()) {
    dropped += pieces.front().size();
  }
  if (!pieces.empty()) {
    loop.post(
        [&loop, rest = std::move(pieces)]() mutable { drop_in_turns(loop, std::move(rest)); });
  }
}

}  // namespace phalanx::http
