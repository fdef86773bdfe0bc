// SPDX-License-Identifier: Apache-2.0
// What every channel does with ZeroMQ; the only file besides zmq_socket.cc that sees it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include <zmq.hpp>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/ipc/channel_options.h"
#include "phalanx/ipc/zmq_context.h"
#include "phalanx/wire/link.h"

namespace phalanx::ipc {

struct ZmqContext::Impl {
  zmq::context_t context;
};

// A DEALER socket with every option set. Calls into ZeroMQ end here: nothing throws, an interrupted
// call is repeated.
class ZmqSocket {
 public:
  [[nodiscard]] static Result<ZmqSocket> bind(ZmqContext& context,
                                              const std::string& endpoint,
                                              pid_t peer,
                                              const ChannelOptions& options);
  [[nodiscard]] static Result<ZmqSocket> connect(ZmqContext& context,
                                                 const std::string& endpoint,
                                                 const ChannelOptions& options);

  // Readable when ZeroMQ has something to say, about sending or receiving, and not again until
  // events() has been asked.
  [[nodiscard]] int descriptor() const { return descriptor_; }

  // What can be done now: ZMQ_POLLIN and ZMQ_POLLOUT.
  [[nodiscard]] int events();

  [[nodiscard]] wire::Sent send(std::string_view frame);

  // The next frame into `message`, whose bytes stay valid until the next call. False: none there.
  [[nodiscard]] bool receive(zmq::message_t& message);

  // How long frames may outlive the socket; 0 at first.
  void set_linger(Duration limit);

  // Waits for any of `events` up to `timeout`. False: the time is over.
  //
  // Errors: kUnavailable
  [[nodiscard]] Result<bool> wait(short events, Duration timeout);

 private:
  ZmqSocket(zmq::socket_t socket, int descriptor)
      : socket_(std::move(socket)), descriptor_(descriptor) {}

  static void configure(zmq::socket_t& socket, const ChannelOptions& options);

  zmq::socket_t socket_;
  int descriptor_;
};

// A fresh endpoint that nobody can guess: "ipc://@phalanx-" and 128 random bits in hex.
[[nodiscard]] std::string random_endpoint();

}  // namespace phalanx::ipc
