// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "phalanx/base/clock.h"
#include "phalanx/http/server.h"
#include "phalanx/obs/metrics.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/settings/options.h"

namespace phalanx::app {

[[nodiscard]] Duration seconds_of(double seconds);

// An error of the HTTP layer as the API shows errors.
[[nodiscard]] http::Response error_response(int status, const std::string& message);

// What the options say about the HTTP server.
[[nodiscard]] http::ServerOptions server_options(const settings::Options& options);

// Says at debug level which callback of the loop was the longest, if it is longer than `told` and
// than callbacks may be.
void log_longest_callback(const os::EventLoop& loop, Duration* told);

// Sets the metrics of the loop's callbacks and of the log.
void refresh_process_metrics(obs::MetricRegistry& registry, const os::EventLoop& loop);

// Tells on standard output where the server is reached, and a request to try.
void print_ready(const settings::Options& options, std::uint16_t port, const std::string& model);

}  // namespace phalanx::app
