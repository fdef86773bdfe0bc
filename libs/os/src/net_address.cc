// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/net_address.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include <arpa/inet.h>
#include <net/if.h>

#include "socket_address.h"

namespace phalanx::os {

namespace {

constexpr std::size_t kHostBytes = 8;     // of IPv6, behind its /64
constexpr std::size_t kMappedBytes = 12;  // of IPv6, before the IPv4 address that it holds

// The interface of a link-local address, by its name or its number.
std::uint32_t parse_scope(const std::string& text) {
  const unsigned index = ::if_nametoindex(text.c_str());
  return index != 0 ? index : static_cast<std::uint32_t>(std::strtoul(text.c_str(), nullptr, 10));
}

std::string scope_text(std::uint32_t scope) {
  std::array<char, IF_NAMESIZE> name{};
  const bool is_known = ::if_indextoname(scope, name.data()) != nullptr;
  return "%" + (is_known ? std::string(name.data()) : std::to_string(scope));
}

SocketAddress without_mapping(const SocketAddress& address) {
  if (address.is_v4() || !IN6_IS_ADDR_V4MAPPED(&address.v6.sin6_addr)) {
    return address;
  }
  SocketAddress plain;
  plain.v4 = {};
  plain.v4.sin_family = AF_INET;
  std::memcpy(
      &plain.v4.sin_addr, &address.v6.sin6_addr.s6_addr[kMappedBytes], sizeof plain.v4.sin_addr);
  return plain;
}

}  // namespace

std::string SocketAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> digits{};
  const void* const bytes = is_v4() ? static_cast<const void*>(&v4.sin_addr) : &v6.sin6_addr;
  ::inet_ntop(any.sa_family, bytes, digits.data(), digits.size());
  const bool has_scope = !is_v4() && v6.sin6_scope_id != 0;
  return digits.data() + (has_scope ? scope_text(v6.sin6_scope_id) : "");
}

std::optional<SocketAddress> parse_socket_address(const std::string& text, std::uint16_t port) {
  SocketAddress address;
  if (in_addr v4{}; ::inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    address.v4 = {};
    address.v4.sin_family = AF_INET;
    address.v4.sin_port = htons(port);
    address.v4.sin_addr = v4;
    return address;
  }
  const std::size_t percent = text.find('%');
  if (::inet_pton(AF_INET6, text.substr(0, percent).c_str(), &address.v6.sin6_addr) != 1) {
    return std::nullopt;
  }
  address.v6.sin6_family = AF_INET6;
  address.v6.sin6_port = htons(port);
  if (percent != std::string::npos) {
    address.v6.sin6_scope_id = parse_scope(text.substr(percent + 1));
  }
  return address;
}

bool is_loopback_address(const std::string& text) {
  const auto address = parse_socket_address(text, 0);
  if (!address) {
    return false;
  }
  const SocketAddress plain = without_mapping(*address);
  return plain.is_v4() ? (ntohl(plain.v4.sin_addr.s_addr) >> IN_CLASSA_NSHIFT) == IN_LOOPBACKNET
                       : IN6_IS_ADDR_LOOPBACK(&plain.v6.sin6_addr);
}

std::string address_key(const std::string& text) {
  const auto address = parse_socket_address(text, 0);
  if (!address) {
    return text;
  }
  SocketAddress plain = without_mapping(*address);
  if (plain.is_v4()) {
    return plain.text();
  }
  plain.v6.sin6_scope_id = 0;
  auto& bytes = plain.v6.sin6_addr.s6_addr;
  std::fill(std::end(bytes) - kHostBytes, std::end(bytes), std::uint8_t{0});
  return plain.text() + "/64";
}

}  // namespace phalanx::os
