// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "phalanx/wire/admin_messages.h"

namespace phalanx::documents {

// It is to take nothing, lives, and neither the leader nor the replica itself knows of any work of
// it.
[[nodiscard]] bool is_drained(const wire::ShownReplica& replica);

// The state of its slot, or "drained".
[[nodiscard]] std::string shown_state(const wire::ShownReplica& replica);

// The whole state of a server as one line of JSON, for GET /health: leader, fronts, replicas,
// ranks, ledger. The fields are those of proto/admin.md.
[[nodiscard]] std::string status_json(const wire::ServerStatus& status);

// The same document in ASCII, which a terminal can show whatever it holds.
[[nodiscard]] std::string status_json_in_ascii(const wire::ServerStatus& status);

// The same as a table for people: a line for the server, one per front, one per replica, one per
// rank. What the status holds is printable in it, whatever it holds.
[[nodiscard]] std::string status_table(const wire::ServerStatus& from);

}  // namespace phalanx::documents
