// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/os/child_process.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/os/memfd.h"
#include "phalanx/os/unique_fd.h"
#include "phalanx/wire/bootstrap.h"

namespace phalanx::fleet {

class OneShotChild;

// What a planner has made of a model.
struct MadePlan {
  wire::ServerPlan plan;
  os::Memfd tokenizer;  // sealed, of plan.tokenizer_bytes; nobody here looks into it
};

// Has the model's files read and the server planned in a process of its own, so that whatever they
// make of their reader happens to nobody else.
//
// Ownership: owns the child, which its end kills.
// Threads: the loop thread.
class ModelPlanner {
 public:
  using Done = std::function<void(Result<MadePlan>)>;

  // `spawn` is what to run. Starts with the next turn of the loop, before which it must not be
  // destroyed. `done` runs once, from the loop, when the child has ended: with what it has made,
  // with its own error, or with how it died. It may destroy this. A child that has not ended after
  // `patience` is killed (kDeadlineExceeded).
  ModelPlanner(os::EventLoop& loop,
               os::SpawnPlan spawn,
               wire::PlannerBootstrap bootstrap,
               int lifeline_pipe,
               Duration patience,
               Done done);
  ModelPlanner(const ModelPlanner&) = delete;
  ModelPlanner& operator=(const ModelPlanner&) = delete;
  ~ModelPlanner();

 private:
  [[nodiscard]] Status take(wire::ControlRecord record, std::vector<os::UniqueFd> fds);
  void finish(Status status);

  os::EventLoop& loop_;
  Done done_;
  std::optional<MadePlan> made_;
  std::unique_ptr<OneShotChild> child_;
};

}  // namespace phalanx::fleet
