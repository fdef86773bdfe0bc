// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/model_planner.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/os/child_side.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/os/held_signals.h"

#include "one_shot_child.h"

namespace phalanx::fleet {

namespace {

// Until a signal is heard of.
constexpr auto kSignalPause = std::chrono::milliseconds(10);

Error unexpected() {
  return data_loss("the planner sent something else than one plan with one descriptor");
}

// The memory comes from a process that has read what anybody may have written: before it is passed
// on, its size is what was said, and nobody can change it any more.
Result<MadePlan> made_of(wire::ControlRecord record, std::vector<os::UniqueFd> fds) {
  auto* const plan = std::get_if<wire::ServerPlan>(&record);
  if (plan == nullptr || fds.size() != 1) {
    return unexpected();
  }
  auto tokenizer = os::Memfd::adopt(std::move(fds.front()), plan->tokenizer_bytes);
  if (!tokenizer) {
    return std::move(tokenizer).error().with("the tokenizer from the planner");
  }
  if (Status sealed = tokenizer->seal_content(); !sealed) {
    return std::move(sealed).error().with("the tokenizer from the planner");
  }
  return MadePlan{std::move(*plan), *std::move(tokenizer)};
}

}  // namespace

Result<std::variant<MadePlan, EndSignal>> plan_model(os::SpawnPlan spawn,
                                                     wire::PlannerBootstrap bootstrap,
                                                     Duration patience) {
  PHALANX_TRY(const os::Pipe lifeline, os::make_pipe());
  os::EventLoop loop;
  EndSignal asked_to_end;
  const auto asking = loop.call_every(kSignalPause, [&] {
    if (const int number = os::take_end_signal(); number != 0) {
      asked_to_end.number = number;
      loop.stop();
    }
  });
  std::optional<MadePlan> made;
  Status ended = ok();
  OneShotChild::Task task;
  task.what = "planner";
  task.model = bootstrap.model_path;
  task.patience = patience;
  task.late =
      "the model's files were not read within " + seconds_text(patience) + " (--start-timeout)";
  task.bootstrap = [record = OneShotChild::bootstrap_record(std::move(bootstrap), spawn),
                    &lifeline]() -> Result<supervise::Bootstrap> {
    return supervise::Bootstrap{record, {lifeline.read.get()}};
  };
  task.spawn = std::move(spawn);
  task.on_record = [&](wire::ControlRecord record,
                       std::vector<os::UniqueFd> fds) -> Result<OneShotChild::Heard> {
    if (made) {
      return unexpected();
    }
    PHALANX_TRY(made, made_of(std::move(record), std::move(fds)));
    return OneShotChild::Heard::kResult;
  };
  task.done = [&](Status status) {
    ended = std::move(status);
    loop.stop();
  };
  const OneShotChild planner(loop, std::move(task));
  loop.run();
  if (asked_to_end.number != 0) {
    return std::variant<MadePlan, EndSignal>(asked_to_end);
  }
  PHALANX_RETURN_IF_ERROR(ended);
  return std::variant<MadePlan, EndSignal>(*std::move(made));
}

}  // namespace phalanx::fleet
