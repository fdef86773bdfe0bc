// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_context.h"

namespace phalanx::worker {

// The life of a rank process, from its bootstrap record to its exit status.
[[nodiscard]] int run_rank(WorkerContext& context);

}  // namespace phalanx::worker
