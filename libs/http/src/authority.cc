// SPDX-License-Identifier: Apache-2.0
#include "authority.h"

#include <algorithm>
#include <array>
#include <string>

#include <arpa/inet.h>

#include "characters.h"

namespace phalanx::http {
namespace {

constexpr unsigned kMaxPort = 65535;

// A comma would make a list of it for others.
bool is_name_character(char c) {
  return is_alphanumeric(c) ||
         std::string_view("-._~%!$&'()*+;=").find(c) != std::string_view::npos;
}

bool is_ipv6_address(std::string_view text) {
  const std::string address(text.substr(0, text.find('%')));
  const std::string_view zone = text.substr(address.size());
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1 && zone != "%" &&
         std::all_of(zone.begin(), zone.end(), is_name_character);
}

bool is_port(std::string_view digits) {
  unsigned port = 0;
  return std::all_of(digits.begin(), digits.end(), [&](char c) {
    port = std::min(port * 10 + static_cast<unsigned>(c - '0'), kMaxPort + 1);
    return is_digit(c) && port <= kMaxPort;
  });
}

}  // namespace

bool is_authority(std::string_view text) {
  const bool in_brackets = text.starts_with('[');
  const std::size_t end = in_brackets ? text.find(']') : text.find(':');
  const std::string_view name = text.substr(in_brackets ? 1 : 0, end - (in_brackets ? 1 : 0));
  if (in_brackets ? end == std::string_view::npos || !is_ipv6_address(name)
                  : name.empty() || !std::all_of(name.begin(), name.end(), is_name_character)) {
    return false;
  }
  const std::string_view tail =
      end == std::string_view::npos ? "" : text.substr(end + (in_brackets ? 1 : 0));
  return tail.empty() || (tail.starts_with(':') && is_port(tail.substr(1)));
}

}  // namespace phalanx::http
