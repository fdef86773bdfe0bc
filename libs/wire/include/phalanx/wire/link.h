// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace phalanx::wire {

enum class Sent {
  kQueued,      // the transport has it; that is no promise of delivery
  kWouldBlock,  // back-pressure: try again before a deadline, then treat the peer as faulty
  kClosed,      // the link is gone
};

// One end of a frame connection to one incarnation of one peer. Implemented over ZeroMQ by `ipc`
// and by a faulty transport in tests; protocol logic knows only this. Frames may be lost with their
// peer, never altered.
//
// Threads: one.
// Blocks: never.
class Link {
 public:
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  virtual ~Link() = default;

  [[nodiscard]] virtual Sent send(std::string_view frame) = 0;
};

}  // namespace phalanx::wire
