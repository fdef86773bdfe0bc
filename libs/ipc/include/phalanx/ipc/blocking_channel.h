// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/ipc/channel_options.h"
#include "phalanx/ipc/zmq_context.h"

namespace phalanx::ipc {

// The child's end of the link to its parent, without an event loop: a rank's towards its replica.
// It connects once and never again.
//
// Threads: one, the same for its whole life.
class BlockingChannel {
 public:
  // Returns before the connection stands. `endpoint` is the bootstrap record's.
  //
  // Errors: kInvalidArgument    not an endpoint
  //         kResourceExhausted  no descriptors left
  [[nodiscard]] static Result<BlockingChannel> connect(ZmqContext& context,
                                                       const std::string& endpoint,
                                                       const ChannelOptions& options);
  BlockingChannel(const BlockingChannel&) = delete;
  BlockingChannel& operator=(const BlockingChannel&) = delete;
  BlockingChannel(BlockingChannel&&) noexcept;
  BlockingChannel& operator=(BlockingChannel&&) noexcept;
  ~BlockingChannel();

  // The next frame; nothing if none came within `timeout`, which is rounded up to milliseconds.
  //
  // Errors: kUnavailable  the socket is gone
  [[nodiscard]] Result<std::optional<std::string>> receive(Duration timeout);

  // Hands the frame to the transport, waiting for room or for the connection up to `timeout`.
  //
  // Errors: kDeadlineExceeded  the parent takes nothing, or is gone
  //         kUnavailable       the socket is gone
  [[nodiscard]] Status send(std::string_view frame, Duration timeout);

  // From now on frames that were handed over are delivered even after this object is gone:
  // destroying the context then waits for that, at most `limit`. For the last words of a child that
  // leaves in good order; without it they are dropped. What the parent's queue has no room for is
  // lost all the same.
  void deliver_rest(Duration limit);

 private:
  struct Impl;
  explicit BlockingChannel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace phalanx::ipc
