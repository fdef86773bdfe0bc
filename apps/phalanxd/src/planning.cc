// SPDX-License-Identifier: Apache-2.0
#include "planning.h"

#include <csignal>
#include <memory>
#include <utility>
#include <vector>

#include "phalanx/fleet/worker_command.h"
#include "phalanx/os/child_side.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/settings/leader_plan.h"

#include "doors.h"

namespace phalanx::app {

Result<std::optional<fleet::MadePlan>> have_planned(const settings::Options& options,
                                                    const os::HeldProgram& workers) {
  PHALANX_TRY(wire::PlannerBootstrap bootstrap, settings::planner_bootstrap_of(options));
  PHALANX_TRY(const os::Pipe lifeline, os::make_pipe());
  os::EventLoop loop;
  std::vector<std::unique_ptr<os::EventLoop::Handle>> signals;
  for (const int signal : {SIGTERM, SIGINT}) {
    signals.push_back(loop.watch_signal(signal, [&](int) { loop.stop(); }));
  }
  std::optional<Result<fleet::MadePlan>> made;
  const fleet::ModelPlanner planner(
      loop,
      fleet::worker_plan(fleet::WorkerRole::kPlanner, nullptr, workers.spawn_path()),
      std::move(bootstrap),
      lifeline.read.get(),
      seconds_of(options.start_timeout_s),
      [&](Result<fleet::MadePlan> result) {
        made.emplace(std::move(result));
        loop.stop();
      });
  loop.run();
  if (!made) {
    return std::optional<fleet::MadePlan>();
  }
  PHALANX_TRY(fleet::MadePlan plan, *std::move(made));
  return std::make_optional(std::move(plan));
}

}  // namespace phalanx::app
