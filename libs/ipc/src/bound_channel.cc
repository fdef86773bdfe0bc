// SPDX-License-Identifier: Apache-2.0
#include "phalanx/ipc/bound_channel.h"

#include <cstddef>
#include <utility>

#include "phalanx/os/unique_fd.h"

#include "loop_socket.h"

namespace phalanx::ipc {
namespace {

// Of a bound socket and its connection, 7, with room for what other threads open meanwhile. ZeroMQ
// ends the process where the connection finds none.
constexpr std::size_t kChannelDescriptors = 16;

}  // namespace

BoundChannel::BoundChannel(std::string endpoint, std::shared_ptr<LoopSocket> socket)
    : endpoint_(std::move(endpoint)), socket_(std::move(socket)) {}

BoundChannel::~BoundChannel() {
  socket_->close();
}

Result<std::unique_ptr<BoundChannel>> BoundChannel::bind(ZmqContext& context,
                                                         os::EventLoop& loop,
                                                         pid_t child,
                                                         ChannelHandlers handlers,
                                                         const ChannelOptions& options) {
  PHALANX_RETURN_IF_ERROR(os::require_descriptors(kChannelDescriptors));
  std::string endpoint = random_endpoint();
  PHALANX_TRY(ZmqSocket socket, ZmqSocket::bind(context, endpoint, child, options));
  auto in_loop =
      std::make_shared<LoopSocket>(std::move(socket), loop, std::move(handlers), options);
  PHALANX_RETURN_IF_ERROR(in_loop->start());
  return std::unique_ptr<BoundChannel>(new BoundChannel(std::move(endpoint), std::move(in_loop)));
}

wire::Sent BoundChannel::send(std::string_view frame) {
  return socket_->send(frame);
}

}  // namespace phalanx::ipc
