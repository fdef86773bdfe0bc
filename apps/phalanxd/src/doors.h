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

// What is told on standard output when the server is ready: where it is reached, and a request to
// try.
[[nodiscard]] std::string ready_text(const settings::Options& options,
                                     std::uint16_t port,
                                     const std::string& model);

// An exit status: this, and the number of the signal by which the server was ended before it had done
// what it was started for.
inline constexpr int kSignalExitBase = 128;

}  // namespace phalanx::app
