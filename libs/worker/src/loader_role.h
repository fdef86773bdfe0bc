// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_context.h"

namespace phalanx::worker {

// The life of a loader process: packs the checkpoint into the arena that its bootstrap record
// brings, tells its progress, unmaps, and exits.
[[nodiscard]] int run_loader(WorkerContext& context);

}  // namespace phalanx::worker
