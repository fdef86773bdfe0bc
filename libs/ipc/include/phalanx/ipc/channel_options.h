// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "phalanx/base/clock.h"
#include "phalanx/wire/limits.h"

namespace phalanx::ipc {

// Every option that ZeroMQ has a default for is set explicitly; these can be chosen.
struct ChannelOptions {
  int send_queue_frames = 1024;                        // beyond it send() answers kWouldBlock
  int receive_queue_frames = 1024;                     // beyond it the peer's sends do
  std::size_t max_frame_bytes = wire::kMaxFrameBytes;  // a longer frame ends the connection
  // Handed over in one turn of the loop, and for so long; then others' work runs.
  std::uint32_t frames_per_turn = 64;
  Duration cpu_time_per_turn = std::chrono::microseconds(300);
};

// What a channel in an event loop tells its owner, on the loop thread. A handler may send on the
// channel and may destroy it.
struct ChannelHandlers {
  // A frame came. The bytes are valid during the call.
  std::function<void(std::string_view)> on_frame;

  // After a send() that would have blocked: it is worth trying again. May be empty.
  std::function<void()> on_writable;
};

}  // namespace phalanx::ipc
