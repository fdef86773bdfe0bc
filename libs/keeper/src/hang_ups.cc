// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/hang_ups.h"

#include <poll.h>

#include <cstddef>

namespace phalanx::keeper {

std::vector<std::uint64_t> hung_up(std::span<const UnservedClient> clients) {
  std::vector<pollfd> sockets;
  sockets.reserve(clients.size());
  for (const UnservedClient& client : clients) {
    const short half_closed = client.has_request ? POLLRDHUP : 0;
    sockets.push_back({client.socket, half_closed, 0});  // the others come unasked
  }
  std::vector<std::uint64_t> left;
  if (::poll(sockets.data(), sockets.size(), 0) <= 0) {
    return left;  // an interruption is made up for by the next call
  }
  for (std::size_t i = 0; i < clients.size(); ++i) {
    if ((sockets[i].revents & (POLLHUP | POLLERR | POLLRDHUP)) != 0) {
      left.push_back(clients[i].connection);
    }
  }
  return left;
}

}  // namespace phalanx::keeper
