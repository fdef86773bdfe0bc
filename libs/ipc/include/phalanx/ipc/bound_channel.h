// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "phalanx/base/result.h"
#include "phalanx/ipc/channel_options.h"
#include "phalanx/ipc/zmq_context.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/wire/link.h"

namespace phalanx::ipc {

class LoopSocket;

// The parent's end of the link to one incarnation of one child: a socket bound to a fresh abstract
// endpoint that admits only the child's pid, or with pid 0, for a child under a wrapper, any
// process of this user; whoever comes proves by its hello that it is the child. A new incarnation
// gets a new channel, so it never sees a frame that was meant for its predecessor; what the
// predecessor had not read yet is dropped with this object.
//
//   spawn the child → bind() → endpoint() goes to the child in its bootstrap record → it connects
//
// Before the child has connected, and after it has gone, send() answers kWouldBlock. The death of
// the child is not told here: its control socket and its lifeline tell it.
//
// Threads: the loop's.
// Blocks: never.
// Cost of send(): one copy of the frame.
class BoundChannel final : public wire::Link {
 public:
  // Errors: kResourceExhausted  too few descriptors left for the socket and its connection, or
  //                             too few that epoll can watch
  //         kInternal           ZeroMQ refused an option
  [[nodiscard]] static Result<std::unique_ptr<BoundChannel>> bind(ZmqContext& context,
                                                                  os::EventLoop& loop,
                                                                  pid_t child,
                                                                  ChannelHandlers handlers,
                                                                  const ChannelOptions& options);
  BoundChannel(const BoundChannel&) = delete;
  BoundChannel& operator=(const BoundChannel&) = delete;
  ~BoundChannel() override;

  // "ipc://@phalanx-" and 128 random bits.
  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }

  [[nodiscard]] wire::Sent send(std::string_view frame) override;

 private:
  BoundChannel(std::string endpoint, std::shared_ptr<LoopSocket> socket);

  std::string endpoint_;
  std::shared_ptr<LoopSocket> socket_;
};

}  // namespace phalanx::ipc
