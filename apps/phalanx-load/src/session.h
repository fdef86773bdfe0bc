// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/loadgen/report.h"

#include "options.h"

namespace phalanx::load {

// Runs the load and waits for its end: finds the model, warms up, measures. Blocks.
//
// Errors: kInvalidArgument  the dataset or a flag does not fit
//         kUnavailable      the server cannot be reached, or a warm-up request failed
[[nodiscard]] Result<loadgen::Report> run_session(Options options);

// Writes the result as JSON and tells where.
[[nodiscard]] Result<std::string> save_report(const Options& options,
                                              const loadgen::Report& report);

}  // namespace phalanx::load
