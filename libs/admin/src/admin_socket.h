// SPDX-License-Identifier: Apache-2.0
// What both ends of the operator's socket have in common.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>

#include <boost/asio/local/stream_protocol.hpp>

namespace phalanx::admin {

using Protocol = boost::asio::local::stream_protocol;

// A leading zero byte makes the address abstract: it exists in the kernel only.
inline Protocol::endpoint endpoint_of(const std::string& name) {
  return {std::string(1, '\0') + name};
}

// Who is at the other end, by the kernel: of a client its user when it connected, of a server its
// user when it began to listen.
inline std::optional<uid_t> peer_of(Protocol::socket& socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return std::nullopt;
  }
  return credentials.uid;
}

inline bool is_trusted(std::optional<uid_t> peer, uid_t user) {
  return peer && (*peer == 0 || *peer == user);
}

}  // namespace phalanx::admin
