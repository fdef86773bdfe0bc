// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/worker/worker.h"

namespace phalanx::worker {

// The life of a rank process, from its bootstrap record to its exit status.
[[nodiscard]] int run_rank(const Seams& seams);

}  // namespace phalanx::worker
