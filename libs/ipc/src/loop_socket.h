// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "phalanx/ipc/channel_options.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/wire/link.h"

#include "zmq_socket.h"

namespace phalanx::ipc {

// A ZeroMQ socket in the event loop.
//
// Its descriptor tells news, not state: once send(), receive() or events() has taken note of them,
// it stays silent although frames may wait. So each of these is followed by a look at events(), or
// by a receive() that finds nothing, and what is left over is a turn of its own on the loop.
class LoopSocket : public std::enable_shared_from_this<LoopSocket> {
 public:
  LoopSocket(ZmqSocket socket,
             os::EventLoop& loop,
             ChannelHandlers handlers,
             const ChannelOptions& options);

  // Begins to watch. Once, after the object is owned by a shared_ptr.
  //
  // Errors: kResourceExhausted  epoll watches as much as it may
  [[nodiscard]] Status start();

  // Ends everything at once. No handler runs afterwards.
  void close();

  [[nodiscard]] wire::Sent send(std::string_view frame);

  void set_linger(Duration limit);

 private:
  // Hands over what is there, up to the budget, and arranges for the rest.
  void turn();
  void tell_writable(int events);
  void post_turn();

  std::optional<ZmqSocket> socket_;
  os::EventLoop& loop_;
  ChannelHandlers handlers_;
  ChannelOptions options_;
  std::unique_ptr<os::EventLoop::Handle> watch_;
  bool turn_posted_ = false;
  bool blocked_ = false;  // a send would have blocked, and on_writable has not told since
};

}  // namespace phalanx::ipc
