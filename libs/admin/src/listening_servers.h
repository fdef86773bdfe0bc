// SPDX-License-Identifier: Apache-2.0
// Who looks for a server where none is learns of those that there are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/admin/admin_call.h"

namespace phalanx::admin {

// The admin sockets that somebody listens at, by `text`, which is /proc/net/unix; by user and port.
// Anybody may choose a name, so lines may hold anything: what does not end in the exact name of a
// server's socket is passed over.
[[nodiscard]] std::vector<AdminAddress> listening_servers(std::string_view text);

// The same of this machine now, as far as the network namespace shows it. Blocks: for the file.
[[nodiscard]] std::vector<AdminAddress> listening_servers();

// "there is one of user 7 at port 8000: phalanxctl --uid 7 --port 8000", of four of them at most;
// empty if there is none. `self` need not give its own --uid.
[[nodiscard]] std::string advice_of(const std::vector<AdminAddress>& servers, std::uint32_t self);

}  // namespace phalanx::admin
