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

// One that is not there is refused by the server.
wire::ShownReplica shown(const wire::AdminRequest& request, const wire::ServerStatus& status) {
  return request.replica < status.replicas.size() ? status.replicas[request.replica]
                                                  : wire::ShownReplica{};
}

// Requests that wait go to a drained replica as well where no other one takes any.
bool may_get_more(const wire::ServerStatus& status) {
  return status.requests_waiting > 0 &&
         std::ranges::none_of(status.replicas, [](const wire::ShownReplica& replica) {
           return replica.slot.state == "ready";
         });
}

bool is_finished(const wire::AdminRequest& request,
                 const wire::ServerStatus& status,
                 Incarnation before) {
  const wire::ShownReplica replica = shown(request, status);
  const std::string& state = replica.slot.state;
  switch (request.command) {
    case wire::AdminCommand::kDrain:
      return documents::is_drained(replica) && !may_get_more(status);
    case wire::AdminCommand::kResume:
      return state == "ready";
    default:
      return replica.slot.incarnation != before && (state == "ready" || state == "draining");
  }
}

// After a pause. A server that hears too many others refuses for now.
bool may_be_heard_later(const Status& outcome, SteadyTime deadline) {
  const bool refused = !outcome && outcome.error().code() == Code::kResourceExhausted;
  if (!refused || left_until(deadline) <= kBetweenLooks) {
    return false;
  }
  std::this_thread::sleep_for(kBetweenLooks);
  return true;
}

Result<wire::ServerStatus> status_by(const CtlOptions& options, SteadyTime deadline) {
  for (;;) {
    auto status = ask_status(options, left_until(deadline));
    if (status || !may_be_heard_later(status.error(), deadline)) {
      return status;
    }
  }
}

Status ask_for(const CtlOptions& options, const wire::AdminRequest& request, SteadyTime deadline) {
  PHALANX_TRY(const wire::AdminAnswer answer, call(options, request, left_until(deadline)));
  return admin::outcome_of(answer);
}

Status wait_for(const CtlOptions& options,
                const wire::AdminRequest& request,
                Incarnation before,
                SteadyTime deadline) {
  const std::string name = "replica " + std::to_string(request.replica);
  for (;;) {
    PHALANX_TRY(const wire::ServerStatus status, status_by(options, deadline));
    if (is_finished(request, status, before)) {
      return ok();
    }
    const wire::ShownReplica replica = shown(request, status);
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
    PHALANX_TRY(const wire::ServerStatus status, status_by(options, deadline));
    before = shown(request, status).slot.incarnation;
  }
  Status outcome = ask_for(options, request, deadline);
  while (waits && may_be_heard_later(outcome, deadline)) {
    outcome = ask_for(options, request, deadline);
  }
  PHALANX_RETURN_IF_ERROR(outcome);
  return waits ? wait_for(options, request, before, deadline) : ok();
}

}  // namespace phalanx::app
