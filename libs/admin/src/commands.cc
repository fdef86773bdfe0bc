// SPDX-License-Identifier: Apache-2.0
#include "phalanx/admin/commands.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "phalanx/wire/error_text.h"

namespace phalanx::admin {

namespace {

constexpr std::array<std::string_view, 6> kNames = {
    "status", "ping", "drain", "resume", "restart", "reload"};

}  // namespace

std::string_view to_string(wire::AdminCommand command) {
  return kNames.at(static_cast<std::size_t>(command));
}

std::optional<wire::AdminCommand> command_named(std::string_view name) {
  const auto* const found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) {
    return std::nullopt;
  }
  return static_cast<wire::AdminCommand>(std::distance(kNames.begin(), found));
}

bool takes_replica(wire::AdminCommand command) {
  return command == wire::AdminCommand::kDrain || command == wire::AdminCommand::kResume ||
         command == wire::AdminCommand::kRestart;
}

wire::AdminAnswer answer_of(const Status& outcome) {
  if (outcome) {
    return wire::AdminDone{};
  }
  return wire::AdminRefused{wire::error_text(outcome.error().message()),
                            outcome.error().code() == Code::kResourceExhausted};
}

Status outcome_of(const wire::AdminAnswer& answer) {
  if (std::holds_alternative<wire::AdminDone>(answer)) {
    return ok();
  }
  const auto* const refused = std::get_if<wire::AdminRefused>(&answer);
  if (refused == nullptr) {
    return failed_precondition("the server answers something else");
  }
  return refused->for_now ? resource_exhausted(refused->message)
                          : failed_precondition(refused->message);
}

}  // namespace phalanx::admin
