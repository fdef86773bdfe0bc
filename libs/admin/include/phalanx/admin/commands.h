// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "phalanx/base/result.h"

namespace phalanx::admin {

// One operator's command as it travels over the admin socket (proto/admin.md).
struct AdminCommand {
  std::string name;  // "status", "ping", "drain", "resume", "restart", "reload"
  std::uint32_t replica = 0;
  bool fronts = false;    // reload: only the fronts
  std::string program{};  // … to run this; empty: what lies where theirs was found
};

// Errors: kInvalidArgument with what was expected.
[[nodiscard]] Result<AdminCommand> parse_admin_command(const std::string& line);

// The line of a command; a replica travels with the commands that take one.
[[nodiscard]] std::string admin_line(const AdminCommand& command);
[[nodiscard]] bool takes_replica(const std::string& name);

// Answers to commands other than "status".
[[nodiscard]] std::string admin_ok();
[[nodiscard]] std::string admin_error(const Error& error);

// Ok if the answer to a command says so, else the server's own error.
[[nodiscard]] Status command_outcome(const std::string& answer);

}  // namespace phalanx::admin
