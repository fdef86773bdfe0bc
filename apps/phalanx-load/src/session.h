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

// Whether a result can be written where `options` want it, found out before hours are measured for
// it: makes the folder. Leaves no file, and no change in one that is there.
//
// Errors: what the errno of the attempt means, with the path
[[nodiscard]] Status check_result_place(const Options& options);

// Writes the result as JSON and tells where.
[[nodiscard]] Result<std::string> save_report(const Options& options,
                                              const loadgen::Report& report);

}  // namespace phalanx::load
