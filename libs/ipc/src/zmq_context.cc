// SPDX-License-Identifier: Apache-2.0
#include "phalanx/ipc/zmq_context.h"

#include <utility>

#include "zmq_socket.h"

namespace phalanx::ipc {

ZmqContext::ZmqContext(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ZmqContext::ZmqContext(ZmqContext&&) noexcept = default;
ZmqContext& ZmqContext::operator=(ZmqContext&&) noexcept = default;
ZmqContext::~ZmqContext() = default;

Result<ZmqContext> ZmqContext::create() {
  try {
    auto impl = std::make_unique<Impl>();
    impl->context.set(zmq::ctxopt::io_threads, 1);
    impl->context.set(zmq::ctxopt::blocky, false);
    return ZmqContext(std::move(impl));
  } catch (const zmq::error_t& error) {
    return errno_error("ZeroMQ context", error.num());
  }
}

}  // namespace phalanx::ipc
