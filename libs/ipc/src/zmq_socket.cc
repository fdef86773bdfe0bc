// SPDX-License-Identifier: Apache-2.0
#include "zmq_socket.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <random>
#include <utility>

namespace phalanx::ipc {
namespace {

Error zmq_failure(std::string_view operation, const zmq::error_t& error) {
  return errno_error("ZeroMQ " + std::string(operation), error.num());
}

}  // namespace

std::string random_endpoint() {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::random_device device;
  std::string endpoint = "ipc://@phalanx-";
  for (int word = 0; word < 4; ++word) {
    unsigned int bits = device();
    for (int digit = 0; digit < 8; ++digit) {
      endpoint.push_back(kDigits[bits & 0xF]);
      bits >>= 4;
    }
  }
  return endpoint;
}

void ZmqSocket::configure(zmq::socket_t& socket, const ChannelOptions& options) {
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, options.send_queue_frames);
  socket.set(zmq::sockopt::rcvhwm, options.receive_queue_frames);
  socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(options.max_frame_bytes));
  socket.set(zmq::sockopt::sndtimeo, 0);
  socket.set(zmq::sockopt::rcvtimeo, 0);
  // Frames wait only for a connection that stands, and none is made a second time: a peer that
  // comes later is another incarnation and must not get them.
  socket.set(zmq::sockopt::immediate, true);
  socket.set(zmq::sockopt::reconnect_ivl, -1);
  // A stopped process is no dead one: nothing here may end a connection by the clock.
  socket.set(zmq::sockopt::handshake_ivl, 0);
  socket.set(zmq::sockopt::heartbeat_ivl, 0);
  socket.set(zmq::sockopt::connect_timeout, 0);
  socket.set(zmq::sockopt::backlog, 8);
}

Result<ZmqSocket> ZmqSocket::bind(ZmqContext& context,
                                  const std::string& endpoint,
                                  pid_t peer,
                                  const ChannelOptions& options) {
  try {
    zmq::socket_t socket(context.impl().context, zmq::socket_type::dealer);
    configure(socket, options);
    // Before bind: a listener keeps the filters it was made with.
    if (peer != 0) {
      socket.set(zmq::sockopt::integral_option<ZMQ_IPC_FILTER_PID, pid_t>{}, peer);
    } else {
      socket.set(zmq::sockopt::integral_option<ZMQ_IPC_FILTER_UID, uid_t>{}, ::geteuid());
    }
    socket.bind(endpoint);
    const int descriptor = socket.get(zmq::sockopt::fd);
    return ZmqSocket(std::move(socket), descriptor);
  } catch (const zmq::error_t& error) {
    return zmq_failure("bind to " + endpoint, error);
  }
}

Result<ZmqSocket> ZmqSocket::connect(ZmqContext& context,
                                     const std::string& endpoint,
                                     const ChannelOptions& options) {
  try {
    zmq::socket_t socket(context.impl().context, zmq::socket_type::dealer);
    configure(socket, options);
    socket.connect(endpoint);
    const int descriptor = socket.get(zmq::sockopt::fd);
    return ZmqSocket(std::move(socket), descriptor);
  } catch (const zmq::error_t& error) {
    return zmq_failure("connect to " + endpoint, error);
  }
}

int ZmqSocket::events() {
  while (true) {
    try {
      return socket_.get(zmq::sockopt::events);
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) {
        return 0;
      }
    }
  }
}

wire::Sent ZmqSocket::send(std::string_view frame) {
  while (true) {
    try {
      const auto sent =
          socket_.send(zmq::buffer(frame.data(), frame.size()), zmq::send_flags::dontwait);
      return sent ? wire::Sent::kQueued : wire::Sent::kWouldBlock;
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) {
        return wire::Sent::kClosed;
      }
    }
  }
}

bool ZmqSocket::receive(zmq::message_t& message) {
  while (true) {
    try {
      return socket_.recv(message, zmq::recv_flags::dontwait).has_value();
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) {
        return false;
      }
    }
  }
}

void ZmqSocket::set_linger(Duration limit) {
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  try {
    socket_.set(zmq::sockopt::linger, static_cast<int>(milliseconds));
  } catch (const zmq::error_t&) {
    // The socket is gone, and with it what could have been delivered.
    return;
  }
}

Result<bool> ZmqSocket::wait(short events, Duration timeout) {
  const SteadyTime deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        std::max(Duration::zero(), deadline - std::chrono::steady_clock::now()));
    std::array<zmq::pollitem_t, 1> items{
        zmq::pollitem_t{.socket = socket_.handle(), .fd = 0, .events = events, .revents = 0}};
    try {
      return zmq::poll(items.data(), items.size(), left) > 0;
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) {
        return unavailable("ZeroMQ poll: " + std::string(error.what()));
      }
    }
  }
}

}  // namespace phalanx::ipc
