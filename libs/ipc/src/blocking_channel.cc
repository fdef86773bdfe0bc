// SPDX-License-Identifier: Apache-2.0
#include "phalanx/ipc/blocking_channel.h"

#include <chrono>
#include <utility>

#include "zmq_socket.h"

namespace phalanx::ipc {

struct BlockingChannel::Impl {
  ZmqSocket socket;
};

BlockingChannel::BlockingChannel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BlockingChannel::BlockingChannel(BlockingChannel&&) noexcept = default;
BlockingChannel& BlockingChannel::operator=(BlockingChannel&&) noexcept = default;
BlockingChannel::~BlockingChannel() = default;

Result<BlockingChannel> BlockingChannel::connect(ZmqContext& context,
                                                 const std::string& endpoint,
                                                 const ChannelOptions& options) {
  PHALANX_TRY(ZmqSocket socket, ZmqSocket::connect(context, endpoint, options));
  return BlockingChannel(std::make_unique<Impl>(Impl{std::move(socket)}));
}

Result<std::optional<std::string>> BlockingChannel::receive(Duration timeout) {
  zmq::message_t message;
  if (!impl_->socket.receive(message)) {
    PHALANX_TRY(const bool there, impl_->socket.wait(ZMQ_POLLIN, timeout));
    if (!there || !impl_->socket.receive(message)) {
      return std::optional<std::string>();
    }
  }
  return std::optional<std::string>(message.to_string());
}

Status BlockingChannel::send(std::string_view frame, Duration timeout) {
  const SteadyTime deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    switch (impl_->socket.send(frame)) {
      case wire::Sent::kQueued:
        return ok();
      case wire::Sent::kClosed:
        return unavailable("the ZeroMQ socket to the parent is closed");
      case wire::Sent::kWouldBlock:
        break;
    }
    const Duration left = deadline - std::chrono::steady_clock::now();
    PHALANX_TRY(const bool writable, impl_->socket.wait(ZMQ_POLLOUT, left));
    if (!writable) {
      return deadline_exceeded("the parent takes no frame");
    }
  }
}

void BlockingChannel::deliver_rest(Duration limit) {
  impl_->socket.set_linger(limit);
}

}  // namespace phalanx::ipc
