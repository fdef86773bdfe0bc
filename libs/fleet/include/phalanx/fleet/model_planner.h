// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "phalanx/os/event_loop.h"
#include "phalanx/os/memfd.h"
#include "phalanx/supervise/posix_process_runner.h"
#include "phalanx/wire/bootstrap.h"

namespace phalanx::fleet {

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
class ModelPlanner final : public supervise::ChildHost {
 public:
  using Done = std::function<void(Result<MadePlan>)>;

  // `spawn` is what to run. Starts at once; `done` runs once, from the loop, when the child has
  // ended: with what it has made, with its own error, or with how it died. One that has not ended
  // after `patience` is killed (kDeadlineExceeded).
  ModelPlanner(os::EventLoop& loop,
               os::SpawnPlan spawn,
               wire::PlannerBootstrap bootstrap,
               int lifeline_pipe,
               Duration patience,
               Done done);
  ModelPlanner(const ModelPlanner&) = delete;
  ModelPlanner& operator=(const ModelPlanner&) = delete;
  ~ModelPlanner() override;

  [[nodiscard]] os::SpawnPlan plan(std::size_t slot, Incarnation incarnation) override;
  [[nodiscard]] Result<supervise::Bootstrap> bootstrap(std::size_t slot,
                                                       Incarnation incarnation,
                                                       pid_t pid) override;
  void ask_to_stop(std::size_t) override {}
  void on_record(std::size_t slot,
                 Incarnation incarnation,
                 Result<os::ControlMessage> received) override;
  void on_dying(std::size_t, Incarnation) override {}
  void on_stopped_by_signal(std::size_t slot, Incarnation incarnation) override;
  void on_exit(const supervise::Death& death) override;

 private:
  void start();
  [[nodiscard]] Status take(os::ControlMessage message);
  void finish(Result<MadePlan> result);

  os::EventLoop& loop_;
  os::SpawnPlan spawn_;
  wire::PlannerBootstrap bootstrap_;
  int lifeline_pipe_;
  Duration patience_;
  Done done_;
  std::optional<MadePlan> made_;
  std::optional<Error> reported_;
  std::unique_ptr<os::EventLoop::Handle> timer_;
  std::unique_ptr<supervise::PosixProcessRunner> runner_;
};

}  // namespace phalanx::fleet
