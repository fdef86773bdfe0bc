// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_context.h"

namespace phalanx::worker {

// The life of a planner process: reads the model's files, sizes a server, hands both to the leader,
// and exits. What it cannot plan it says in the record that ends it, and nowhere else: the leader's
// words are the last of a start that fails.
[[nodiscard]] int run_planner(WorkerContext& context);

}  // namespace phalanx::worker
