// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/hang_up.h"

#include <poll.h>

#include <cstddef>

namespace phalanx::os {

std::vector<bool> have_left(std::span<const WatchedPeer> peers) {
  std::vector<pollfd> sockets;
  sockets.reserve(peers.size());
  for (const WatchedPeer& peer : peers) {
    const short half_closed = peer.left_when_silent ? POLLRDHUP : 0;
    sockets.push_back({peer.socket, half_closed, 0});  // the others come unasked
  }
  std::vector<bool> left(peers.size());
  if (::poll(sockets.data(), sockets.size(), 0) <= 0) {
    return left;  // an interruption is made up for by the next call
  }
  for (std::size_t i = 0; i < peers.size(); ++i) {
    left[i] = (sockets[i].revents & (POLLHUP | POLLERR | POLLRDHUP)) != 0;
  }
  return left;
}

}  // namespace phalanx::os
