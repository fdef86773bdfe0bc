// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/model_planner.h"

#include <string>
#include <utility>
#include <variant>

#include "one_shot_child.h"

namespace phalanx::fleet {

ModelPlanner::ModelPlanner(os::EventLoop& loop,
                           os::SpawnPlan spawn,
                           wire::PlannerBootstrap bootstrap,
                           int lifeline_pipe,
                           Duration patience,
                           Done done)
    : loop_(loop), done_(std::move(done)) {
  OneShotChild::Task task;
  task.what = "planner";
  task.model = bootstrap.model_path;
  task.patience = patience;
  task.late =
      "the model's files were not read within " + seconds_text(patience) + " (--start-timeout)";
  task.bootstrap = [record = OneShotChild::bootstrap_record(std::move(bootstrap), spawn),
                    lifeline_pipe]() -> Result<supervise::Bootstrap> {
    return supervise::Bootstrap{record, {lifeline_pipe}};
  };
  task.spawn = std::move(spawn);
  task.on_record = [this](wire::ControlRecord record,
                          std::vector<os::UniqueFd> fds) -> Result<OneShotChild::Heard> {
    PHALANX_RETURN_IF_ERROR(take(std::move(record), std::move(fds)));
    return OneShotChild::Heard::kResult;
  };
  task.done = [this](Status status) { finish(std::move(status)); };
  child_ = std::make_unique<OneShotChild>(loop_, std::move(task));
}

ModelPlanner::~ModelPlanner() = default;

// The memory comes from a process that has read what anybody may have written: before it is passed
// on, its size is what was said, and nobody can change it any more.
Status ModelPlanner::take(wire::ControlRecord record, std::vector<os::UniqueFd> fds) {
  auto* const plan = std::get_if<wire::ServerPlan>(&record);
  if (plan == nullptr || made_ || fds.size() != 1) {
    return data_loss("the planner sent something else than one plan with one descriptor");
  }
  auto tokenizer = os::Memfd::adopt(std::move(fds.front()), plan->tokenizer_bytes);
  if (!tokenizer) {
    return std::move(tokenizer).error().with("the tokenizer from the planner");
  }
  if (Status sealed = tokenizer->seal_content(); !sealed) {
    return std::move(sealed).error().with("the tokenizer from the planner");
  }
  made_ = MadePlan{std::move(*plan), *std::move(tokenizer)};
  return ok();
}

void ModelPlanner::finish(Status status) {
  Result<MadePlan> result = status ? Result<MadePlan>(*std::exchange(made_, std::nullopt))
                                   : Result<MadePlan>(std::move(status).error());
  loop_.post([done = done_, shared = std::make_shared<Result<MadePlan>>(std::move(result))] {
    done(std::move(*shared));
  });
}

}  // namespace phalanx::fleet
