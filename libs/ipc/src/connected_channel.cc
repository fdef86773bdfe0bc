// SPDX-License-Identifier: Apache-2.0
#include "phalanx/ipc/connected_channel.h"

#include <utility>

#include "loop_socket.h"

namespace phalanx::ipc {

ConnectedChannel::ConnectedChannel(std::shared_ptr<LoopSocket> socket)
    : socket_(std::move(socket)) {}

ConnectedChannel::~ConnectedChannel() {
  socket_->close();
}

Result<std::unique_ptr<ConnectedChannel>> ConnectedChannel::connect(ZmqContext& context,
                                                                    os::EventLoop& loop,
                                                                    const std::string& endpoint,
                                                                    ChannelHandlers handlers,
                                                                    const ChannelOptions& options) {
  PHALANX_TRY(ZmqSocket socket, ZmqSocket::connect(context, endpoint, options));
  auto in_loop =
      std::make_shared<LoopSocket>(std::move(socket), loop, std::move(handlers), options);
  PHALANX_RETURN_IF_ERROR(in_loop->start());
  return std::unique_ptr<ConnectedChannel>(new ConnectedChannel(std::move(in_loop)));
}

wire::Sent ConnectedChannel::send(std::string_view frame) {
  return socket_->send(frame);
}

void ConnectedChannel::deliver_rest(Duration limit) {
  socket_->set_linger(limit);
}

}  // namespace phalanx::ipc
