// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/base/clock.h"
#include "phalanx/keeper/fronts.h"
#include "phalanx/obs/metrics.h"
#include "phalanx/os/event_loop.h"

// What the leader tells of its own process and of its fronts'.

namespace phalanx::app {

// Sets the metrics of the process, of the loop's callbacks and of the log.
void refresh_process_metrics(obs::MetricRegistry& registry, const os::EventLoop& loop);

// The same of the fronts' loops.
void refresh_front_metrics(obs::MetricRegistry& registry, const keeper::Fronts& fronts);

// Says at debug level which callback of the loop was the longest, if it is longer than `told` and
// than callbacks may be.
void log_longest_callback(const os::EventLoop& loop, Duration* told);

}  // namespace phalanx::app
