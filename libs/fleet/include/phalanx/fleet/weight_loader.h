// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "phalanx/os/cpu_topology.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/os/memfd.h"
#include "phalanx/supervise/posix_process_runner.h"
#include "phalanx/wire/bootstrap.h"

namespace phalanx::fleet {

// Fills the weight arena in a process of its own, so that neither the memory for reading a
// checkpoint nor a crash in it is the leader's. The arena is sealed before it is handed out: nobody
// can write to it afterwards.
//
// Ownership: owns the child and, until it is handed out, the arena.
// Threads: the loop thread.
class WeightLoader final : public supervise::ChildHost {
 public:
  using Done = std::function<void(Result<os::Memfd>)>;
  using Progress = std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>;

  struct Start {
    os::SpawnPlan spawn;  // what to run
    wire::LoaderBootstrap bootstrap;
    os::NodeList nodes;  // that the weights are spread over
    int lifeline_pipe;
    Duration patience;  // with one that makes no progress and runs under no wrapper
  };

  // Starts at once; `done` runs once, from the loop.
  WeightLoader(os::EventLoop& loop, Start start, Progress progress, Done done);
  WeightLoader(const WeightLoader&) = delete;
  WeightLoader& operator=(const WeightLoader&) = delete;
  ~WeightLoader() override;

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
  void start_loader();
  void arm();
  void finish(Result<os::Memfd> result);

  os::EventLoop& loop_;
  Start start_;
  Progress progress_;
  Done done_;
  os::Memfd arena_;
  bool filled_ = false;
  std::optional<Error> reported_;
  std::unique_ptr<os::EventLoop::Handle> timer_;
  std::unique_ptr<supervise::PosixProcessRunner> runner_;
};

}  // namespace phalanx::fleet
