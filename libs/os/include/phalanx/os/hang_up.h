// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace phalanx::os {

struct WatchedPeer {
  int socket = -1;  // of this side; borrowed
  // It has left already when it has ended its sending side, and not only when it has reset the
  // connection or both sides are closed.
  bool left_when_silent = false;
};

// Which of these peers have left, in their order.
//
// Blocks: never; nothing is read from a socket or written to it.
[[nodiscard]] std::vector<bool> have_left(std::span<const WatchedPeer> peers);

}  // namespace phalanx::os
