// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "phalanx/base/clock.h"
#include "phalanx/keeper/fronts.h"
#include "phalanx/obs/metrics.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/settings/options.h"

namespace phalanx::app {

[[nodiscard]] Duration seconds_of(double seconds);

// Says at debug level which callback of the loop was the longest, if it is longer than `told` and
// than callbacks may be.
void log_longest_callback(const os::EventLoop& loop, Duration* told);

// Sets the metrics of the loop's callbacks and of the log.
void refresh_process_metrics(obs::MetricRegistry& registry, const os::EventLoop& loop);

// The same of the fronts' loops.
void refresh_front_metrics(obs::MetricRegistry& registry, const keeper::Fronts& fronts);

// Tells on standard output where the server is reached, and a request to try.
void print_ready(const settings::Options& options, std::uint16_t port, const std::string& model);

}  // namespace phalanx::app
