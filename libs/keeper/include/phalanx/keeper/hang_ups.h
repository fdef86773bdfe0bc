// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace phalanx::keeper {

// A connection that no front has.
struct UnservedClient {
  std::uint64_t connection = 0;
  int socket = -1;           // of the server's side; borrowed
  bool has_request = false;  // an answer is being made for it
};

// The connections whose clients have left, as a front would take it: those that are reset or closed
// in both directions, and those whose client has ended its sending side while its request is in
// work. Without such a request a client that only ended its sending side may still read the end of
// an answer; that is for the next front to see.
//
// Blocks: never; nothing is read from a socket or written to it.
[[nodiscard]] std::vector<std::uint64_t> hung_up(std::span<const UnservedClient> clients);

}  // namespace phalanx::keeper
