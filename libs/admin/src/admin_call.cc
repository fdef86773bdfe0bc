// SPDX-License-Identifier: Apache-2.0
#include "phalanx/admin/admin_call.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ios>
#include <string>
#include <thread>
#include <utility>

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>

#include "phalanx/admin/admin_server.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/frame_header.h"
#include "phalanx/wire/limits.h"

#include "admin_socket.h"
#include "listening_servers.h"

namespace phalanx::admin {

namespace {

// Between tries to connect to a server whose queue is full.
constexpr auto kConnectRetry = std::chrono::milliseconds(10);

// 0, or the errno value.
int try_to_connect(Protocol::socket& socket, const Protocol::endpoint& endpoint) {
  boost::system::error_code error;
  if (!socket.is_open()) {
    socket.open(Protocol(), error);
  }
  if (!error) {
    socket.native_non_blocking(true, error);
  }
  if (error) {
    return error.value();
  }
  const auto size = static_cast<socklen_t>(endpoint.size());
  return ::connect(socket.native_handle(), endpoint.data(), size) == 0 ? 0 : errno;
}

Status connect(Protocol::socket& socket, const AdminAddress& server, SteadyTime deadline) {
  const std::string name = admin_socket_name(server.uid, server.port);
  int error = try_to_connect(socket, endpoint_of(name));
  // A server that accepts nobody has a queue that is full; its end is told by nothing.
  while (error == EAGAIN && steady_clock().now() < deadline) {
    std::this_thread::sleep_for(kConnectRetry);
    error = try_to_connect(socket, endpoint_of(name));
  }
  if (error == EAGAIN) {
    return deadline_exceeded("the server took no connection in time");
  }
  if (error != 0) {
    const std::string advice =
        error == ECONNREFUSED ? advice_of(listening_servers(), ::geteuid()) : "";
    return not_found("no server answers at @" + name + " (" +
                     boost::system::system_category().message(error) +
                     "): " + (advice.empty() ? "is phalanxd running on that port?" : advice));
  }
  if (const auto peer = peer_of(socket); !is_trusted(peer, server.uid)) {
    return failed_precondition("the process at @" + name + " is run by " +
                               (peer ? "user " + std::to_string(*peer) : "nobody known") +
                               ", expected user " + std::to_string(server.uid) +
                               " or root; nothing was sent to it");
  }
  return ok();
}

// Why there is no answer.
Error lost(const boost::system::error_code& error, const AdminAddress& server) {
  if (error == boost::asio::error::timed_out) {
    return deadline_exceeded("the server did not answer in time");
  }
  return unavailable(
      "the server hung up: " + error.message() +
      (is_trusted(::geteuid(), server.uid) ? "" : "; only its own user and root are heard"));
}

}  // namespace

Result<wire::AdminAnswer> admin_call(const AdminAddress& server,
                                     const wire::AdminRequest& request,
                                     Duration timeout) {
  PHALANX_RETURN_IF_ERROR(wire::check(request));
  const SteadyTime deadline = steady_clock().now() + timeout;
  boost::asio::io_context io;
  Protocol::socket socket(io);
  PHALANX_RETURN_IF_ERROR(connect(socket, server, deadline));
  Protocol::iostream stream(std::move(socket));
  stream.expires_at(deadline);
  stream << wire::with_header(wire::encode(request)) << std::flush;
  stream.clear();  // who is refused before its request is read finds that behind a write that fails
  // A header, or as little as shows that it will be none.
  std::string header;
  while (header.size() < wire::kFrameHeaderBytes && wire::begins_as_header(header)) {
    char byte = 0;
    if (!stream.get(byte)) {
      return lost(stream.error(), server);
    }
    header += byte;
  }
  const auto bytes = wire::frame_bytes_of(header, wire::kMaxAdminAnswerBytes);
  if (!bytes) {
    return failed_precondition("the server's answer could not be read: " + bytes.error().message() +
                               "; use the phalanxctl that belongs to it");
  }
  std::string content(*bytes, '\0');
  if (!stream.read(content.data(), static_cast<std::streamsize>(content.size()))) {
    return lost(stream.error(), server);
  }
  auto answer = wire::decode_admin_answer(content);
  if (!answer) {
    return data_loss("the server's answer could not be read: " + answer.error().message());
  }
  return answer;
}

}  // namespace phalanx::admin
