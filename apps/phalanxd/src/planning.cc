// SPDX-License-Identifier: Apache-2.0
#include "planning.h"

#include <chrono>
#include <utility>

#include "phalanx/fleet/worker_command.h"
#include "phalanx/os/child_side.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/os/held_signals.h"
#include "phalanx/settings/leader_plan.h"

namespace phalanx::app {

namespace {

// Until a signal is heard of.
constexpr auto kSignalPause = std::chrono::milliseconds(10);

}  // namespace

Result<Planned> have_planned(const settings::Options& options, const os::HeldProgram& workers) {
  PHALANX_TRY(wire::PlannerBootstrap bootstrap, settings::planner_bootstrap_of(options));
  PHALANX_TRY(const os::Pipe lifeline, os::make_pipe());
  os::EventLoop loop;
  EndSignal asked_to_end;
  const auto asking = loop.call_every(kSignalPause, [&] {
    if (const int number = os::take_end_signal(); number != 0) {
      asked_to_end.number = number;
      loop.stop();
    }
  });
  std::optional<Result<fleet::MadePlan>> made;
  const fleet::ModelPlanner planner(
      loop,
      fleet::worker_plan(fleet::WorkerRole::kPlanner, nullptr, workers.spawn_path()),
      std::move(bootstrap),
      lifeline.read.get(),
      from_seconds(options.start_timeout_s),
      [&](Result<fleet::MadePlan> result) {
        made.emplace(std::move(result));
        loop.stop();
      });
  loop.run();
  if (asked_to_end.number != 0) {
    return Planned(asked_to_end);
  }
  PHALANX_TRY(fleet::MadePlan plan, *std::move(made));
  return Planned(std::move(plan));
}

}  // namespace phalanx::app
