// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/keeper/fronts.h"
#include "phalanx/obs/metrics.h"
#include "phalanx/os/event_loop.h"

// What the leader tells of its own process and of its fronts'.

namespace phalanx::app {

// Sets the metrics of the process, of the loop's callbacks and of the log.
void refresh_process_metrics(obs::MetricRegistry& registry, const os::EventLoop& loop);

// The same of the fronts' loops.
void refresh_front_metrics(obs::MetricRegistry& registry, const keeper::Fronts& fronts);

}  // namespace phalanx::app
