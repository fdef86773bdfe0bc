// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/worker/worker.h"

namespace phalanx::app {

// The whole program: the leader, or a worker if the first argument says so. Throws nothing: an
// exception is told in one line, as the exit status of its cause.
[[nodiscard]] int run_phalanxd(int argc, char** argv, const worker::Seams& seams);

}  // namespace phalanx::app
