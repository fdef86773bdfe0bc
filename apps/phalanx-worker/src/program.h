// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/worker/worker.h"

namespace phalanx::app {

// The whole program. Throws nothing: an exception is told in one line, as the exit status of its
// cause.
[[nodiscard]] int run_worker_program(int argc, char** argv, const worker::Seams& seams);

}  // namespace phalanx::app
