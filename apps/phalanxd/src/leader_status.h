// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "phalanx/base/result.h"
#include "phalanx/fleet/replica_host.h"
#include "phalanx/routing/router.h"
#include "phalanx/serving/dispatcher.h"

namespace phalanx::app {

// The whole state of the server as JSON, for `phalanxctl status` and /health: leader, replicas,
// ranks, ledger.
[[nodiscard]] std::string status_json(const std::string& model,
                                      const std::string& phase,
                                      const routing::Router& router,
                                      const serving::Dispatcher& dispatcher,
                                      const fleet::ReplicaHost& replicas,
                                      std::uint64_t requests_finished);

// One operator's command as it came over the admin socket.
struct AdminCommand {
  std::string name;  // "status", "ping", "drain", "resume", "restart"
  std::uint32_t replica = 0;
};
[[nodiscard]] Result<AdminCommand> parse_admin_command(const std::string& line);

[[nodiscard]] std::string admin_ok();
[[nodiscard]] std::string admin_error(const Error& error);

}  // namespace phalanx::app
