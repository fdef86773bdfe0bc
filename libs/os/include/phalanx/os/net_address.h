// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace phalanx::os {

// Numeric addresses as text, as AcceptedSocket has them: "127.0.0.1", "2001:db8::7".

// Also an IPv4 loopback address written in IPv6. False for what is no address.
[[nodiscard]] bool is_loopback_address(const std::string& text);

// What counts as one client address: an IPv4 address (also one written in IPv6), or the /64 that
// one IPv6 host owns, as "2001:db8::/64". What is no address is its own key.
[[nodiscard]] std::string address_key(const std::string& text);

}  // namespace phalanx::os
