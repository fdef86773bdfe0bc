// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace phalanx::http {

// host [":" port] of RFC 9110, which a Host field, an absolute target and an origin hold: a name,
// an IPv4 address or an IPv6 address in brackets; digits up to 65535, or none. Whoever looks only
// at the name may do so behind this.
[[nodiscard]] bool is_authority(std::string_view text);

}  // namespace phalanx::http
