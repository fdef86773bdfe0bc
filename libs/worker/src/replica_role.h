// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_context.h"

namespace phalanx::worker {

// The life of a replica engine process, from its bootstrap record to its exit status.
[[nodiscard]] int run_replica(WorkerContext& context);

}  // namespace phalanx::worker
