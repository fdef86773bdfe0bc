// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "roles.h"

namespace phalanx::app {

// The life of a replica engine process, from its bootstrap record to its exit status.
[[nodiscard]] int run_replica(const Seams& seams);

}  // namespace phalanx::app
