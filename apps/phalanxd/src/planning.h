// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include "phalanx/base/result.h"
#include "phalanx/fleet/model_planner.h"
#include "phalanx/os/child_process.h"
#include "phalanx/settings/options.h"

namespace phalanx::app {

struct EndSignal {
  int number = 0;  // SIGTERM or SIGINT
};
using Planned = std::variant<fleet::MadePlan, EndSignal>;

// Has a planner read the model's files and size the server. A signal: it came first, and nothing is
// left of the planner. Requires os::hold_group_signals().
//
// Threads: the thread that runs the leader's loop afterwards.
// Blocks: until the planner has ended, for at most --start-timeout.
// Errors: the planner's own, or how it died; kDeadlineExceeded.
[[nodiscard]] Result<Planned> have_planned(const settings::Options& options,
                                           const os::HeldProgram& workers);

}  // namespace phalanx::app
