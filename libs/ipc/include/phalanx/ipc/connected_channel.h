// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/ipc/channel_options.h"
#include "phalanx/ipc/zmq_context.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/wire/link.h"

namespace phalanx::ipc {

class LoopSocket;

// The child's end of the link to its parent, in an event loop: a replica's towards the leader. It
// connects once and never again; after the parent has gone, send() answers kWouldBlock and the
// lifeline pipe says why.
//
// Threads: the loop's.
// Blocks: never. Until the connection stands, send() answers kWouldBlock; on_writable tells when it
// does.
class ConnectedChannel final : public wire::Link {
 public:
  // Returns before the connection stands. `endpoint` is the bootstrap record's.
  //
  // Errors: kInvalidArgument    not an endpoint
  //         kResourceExhausted  no descriptors left, or none that epoll can watch
  [[nodiscard]] static Result<std::unique_ptr<ConnectedChannel>> connect(
      ZmqContext& context,
      os::EventLoop& loop,
      const std::string& endpoint,
      ChannelHandlers handlers,
      const ChannelOptions& options);
  ConnectedChannel(const ConnectedChannel&) = delete;
  ConnectedChannel& operator=(const ConnectedChannel&) = delete;
  ~ConnectedChannel() override;

  [[nodiscard]] wire::Sent send(std::string_view frame) override;

  // From now on frames that were handed over are delivered even after this object is gone:
  // destroying the context then waits for that, at most `limit`. For the last words of a child that
  // leaves in good order; without it they are dropped. What the parent's queue has no room for is
  // lost all the same.
  void deliver_rest(Duration limit);

 private:
  explicit ConnectedChannel(std::shared_ptr<LoopSocket> socket);

  std::shared_ptr<LoopSocket> socket_;
};

}  // namespace phalanx::ipc
