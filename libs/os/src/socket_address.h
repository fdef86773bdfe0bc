// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include <netinet/in.h>

namespace phalanx::os {

// An IPv4 or IPv6 address with its port, as the kernel takes and gives it.
union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6{};

  [[nodiscard]] bool is_v4() const { return any.sa_family == AF_INET; }
  [[nodiscard]] socklen_t size() const { return is_v4() ? sizeof v4 : sizeof v6; }
  [[nodiscard]] std::uint16_t port() const { return ntohs(is_v4() ? v4.sin_port : v6.sin6_port); }
  [[nodiscard]] std::string text() const;  // without the port
};

// Nothing if `text` is no numeric address.
[[nodiscard]] std::optional<SocketAddress> parse_socket_address(const std::string& text,
                                                                std::uint16_t port);

}  // namespace phalanx::os
