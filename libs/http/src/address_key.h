// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "asio.h"

namespace phalanx::http {

// What counts as one client address: an IPv4 address, or the /64 that one IPv6 host owns.
[[nodiscard]] std::string address_key(const asio::ip::address& address);

// Also an IPv4 loopback address written in IPv6.
[[nodiscard]] bool is_loopback(const asio::ip::address& address);

}  // namespace phalanx::http
