// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "phalanx/base/result.h"
#include "phalanx/wire/admin_messages.h"

namespace phalanx::admin {

// An operator's commands as people spell them: "status", "ping", "drain", "resume", "restart",
// "reload".
[[nodiscard]] std::string_view to_string(wire::AdminCommand command);
[[nodiscard]] std::optional<wire::AdminCommand> command_named(std::string_view name);

[[nodiscard]] bool takes_replica(wire::AdminCommand command);

// The answer to a command other than "status": that it is done, or why not.
[[nodiscard]] wire::AdminAnswer answer_of(const Status& outcome);

// Ok if the answer to a command other than "status" says so, else kFailedPrecondition with the
// server's own message.
[[nodiscard]] Status outcome_of(const wire::AdminAnswer& answer);

}  // namespace phalanx::admin
