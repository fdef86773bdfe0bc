// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "phalanx/front/leader_link.h"
#include "phalanx/http/route_table.h"

namespace phalanx::front {

// How a stream of the API ends that nobody goes on with: an error, and its last event.
[[nodiscard]] std::string stream_failure(const std::string& message);

// Adds /version, which the front answers, and /live, /ready, /ping (which is /ready), /health and
// /metrics, whose answers are the leader's, that of /health as a record (wire::AdminAnswer) which
// is written out here; `before_metrics` is called before /metrics is asked for. The link outlives
// the routes.
void add_operator_routes(http::RouteTable* routes,
                         LeaderLink& link,
                         std::function<void()> before_metrics);

}  // namespace phalanx::front
