// SPDX-License-Identifier: Apache-2.0
#include "operate.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "phalanx/admin/commands.h"
#include "phalanx/base/clock.h"
#include "phalanx/documents/status_document.h"

#include "server_call.h"

namespace phalanx::app {

namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(100);

// What the server is asked has its end at the deadline, however little is left.
Duration left_until(SteadyTime deadline) {
  return std::max<Duration>(deadline - steady_clock().now(), std::chrono::milliseconds(1));
}

bool is_finished(const wire::AdminRequest& request,
                 const wire::ShownReplica& replica,
                 Incarnation before) {
  const std::string& state = replica.slot.state;
  switch (request.command) {
    case wire::AdminCommand::kDrain:
      return documents::is_idle(replica);
    case wire::AdminCommand::kResume:
      return state == "ready";
    default:
      return replica.slot.incarnation != before && (state == "ready" || state == "draining");
  }
}

Result<wire::ShownReplica> look(const CtlOptions& options,
                                const wire::AdminRequest& request,
                                SteadyTime deadline) {
  PHALANX_TRY(const wire::ServerStatus status, ask_status(options, left_until(deadline)));
  // One that is not there is refused by the server.
  return request.replica < status.replicas.size() ? status.replicas[request.replica]
                                                  : wire::ShownReplica{};
}

Status wait_for(const CtlOptions& options,
                const wire::AdminRequest& request,
                Incarnation before,
                SteadyTime deadline) {
  const std::string name = "replica " + std::to_string(request.replica);
  for (;;) {
    PHALANX_TRY(const wire::ShownReplica replica, look(options, request, deadline));
    if (is_finished(request, replica, before)) {
      return ok();
    }
    if (replica.slot.state == "failed") {
      return unavailable(name + " has failed: " + replica.slot.last_error);
    }
    if (left_until(deadline) <= kBetweenLooks) {
      return deadline_exceeded(std::string(admin::to_string(request.command)) + ": after " +
                               seconds_text(from_seconds(options.timeout_s)) + " " + name + " is " +
                               documents::shown_state(replica) +
                               ", sequences left: " + std::to_string(replica.open_attempts) +
                               "; the server goes on with it, and --timeout says how long to wait");
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

}  // namespace

Status operate(const CtlOptions& options, const wire::AdminRequest& request) {
  const SteadyTime deadline = steady_clock().now() + from_seconds(options.timeout_s);
  const bool waits = options.wait && admin::takes_replica(request.command);
  Incarnation before;
  if (waits) {
    PHALANX_TRY(const wire::ShownReplica replica, look(options, request, deadline));
    before = replica.slot.incarnation;
  }
  PHALANX_TRY(const wire::AdminAnswer answer, call(options, request, left_until(deadline)));
  PHALANX_RETURN_IF_ERROR(admin::outcome_of(answer));
  return waits ? wait_for(options, request, before, deadline) : ok();
}

}  // namespace phalanx::app
