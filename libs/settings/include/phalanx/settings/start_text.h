// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "phalanx/settings/leader_plan.h"
#include "phalanx/settings/options.h"

namespace phalanx::settings {

// The summary that is printed at start, one fact a line.
[[nodiscard]] std::string start_summary(const Options& options, const LeaderPlan& plan);

// What is told on standard output when the server is ready: where it is reached, and a request to
// try.
[[nodiscard]] std::string ready_text(const Options& options,
                                     std::uint16_t port,
                                     const std::string& model);

}  // namespace phalanx::settings
