// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/loadgen/report.h"

#include "options.h"

namespace phalanx::load {

struct Outcome {
  loadgen::Report report;
  int signal = 0;  // SIGINT or SIGTERM ended it: the report is of what had ended, or empty
};

// Runs the load and waits for its end: finds the model, warms up, measures. Blocks. A second signal
// ends the process.
//
// Errors: kInvalidArgument  the dataset or a flag does not fit
//         kUnavailable      the server cannot be reached, or a warm-up request failed
[[nodiscard]] Result<Outcome> run_session(Options options);

}  // namespace phalanx::load
