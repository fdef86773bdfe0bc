// SPDX-License-Identifier: Apache-2.0
#include "loop_socket.h"

#include <utility>

namespace phalanx::ipc {

LoopSocket::LoopSocket(ZmqSocket socket,
                       os::EventLoop& loop,
                       ChannelHandlers handlers,
                       const ChannelOptions& options)
    : socket_(std::move(socket)), loop_(loop), handlers_(std::move(handlers)), options_(options) {}

Status LoopSocket::start() {
  PHALANX_TRY(watch_, loop_.watch_readable(socket_->descriptor(), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->turn();
    }
  }));
  post_turn();  // news from before the watch
  return ok();
}

void LoopSocket::close() {
  watch_.reset();  // before the descriptor is gone
  socket_.reset();
}

wire::Sent LoopSocket::send(std::string_view frame) {
  if (!socket_) {
    return wire::Sent::kClosed;
  }
  const wire::Sent sent = socket_->send(frame);
  blocked_ = blocked_ || sent == wire::Sent::kWouldBlock;
  const int events = socket_->events();
  if ((events & ZMQ_POLLIN) != 0 || (blocked_ && (events & ZMQ_POLLOUT) != 0)) {
    post_turn();
  }
  return sent;
}

void LoopSocket::set_linger(Duration limit) {
  if (socket_) {
    socket_->set_linger(limit);
  }
}

void LoopSocket::post_turn() {
  if (turn_posted_) {
    return;
  }
  turn_posted_ = true;
  loop_.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->turn_posted_ = false;
      self->turn();
    }
  });
}

void LoopSocket::turn() {
  const auto self = shared_from_this();  // a handler may drop the channel
  loop_.name_callback("frames of a channel");
  zmq::message_t message;
  const CpuTimeLimit limit = loop_.callback_limit(options_.cpu_time_per_turn);
  bool some_wait = true;
  for (std::uint32_t handed = 0;
       socket_ && handed < options_.frames_per_turn && !(handed > 0 && limit.passed());
       ++handed) {
    some_wait = socket_->receive(message);
    if (!some_wait) {
      break;
    }
    handlers_.on_frame({static_cast<const char*>(message.data()), message.size()});
  }
  if (!socket_ || (!some_wait && !blocked_)) {
    return;
  }
  const int events = socket_->events();
  tell_writable(events);
  if (socket_ && (events & ZMQ_POLLIN) != 0) {
    post_turn();
  }
}

void LoopSocket::tell_writable(int events) {
  if (!blocked_ || (events & ZMQ_POLLOUT) == 0) {
    return;
  }
  blocked_ = false;
  if (handlers_.on_writable) {
    handlers_.on_writable();
  }
}

}  // namespace phalanx::ipc
