// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/os/child_process.h"
#include "phalanx/os/memfd.h"
#include "phalanx/wire/bootstrap.h"

namespace phalanx::fleet {

// What a planner has made of a model.
struct MadePlan {
  wire::ServerPlan plan;
  os::Memfd tokenizer;  // sealed, of plan.tokenizer_bytes; nobody here looks into it
};

// The signal that has asked this process to end: SIGTERM or SIGINT.
struct EndSignal {
  int number = 0;
};

// Has the model's files read and the server planned in a process of its own, so that whatever they
// make of their reader happens to nobody else. `spawn` is what to run. A signal: it came first, and
// nothing is left of the planner. Requires os::hold_group_signals().
//
// Threads: the thread that runs the leader's loop afterwards.
// Blocks: until the planner has ended, for at most `patience`.
// Errors: the planner's own, or how it died; kDeadlineExceeded after `patience`
[[nodiscard]] Result<std::variant<MadePlan, EndSignal>> plan_model(os::SpawnPlan spawn,
                                                                   wire::PlannerBootstrap bootstrap,
                                                                   Duration patience);

}  // namespace phalanx::fleet
