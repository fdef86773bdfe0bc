// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/os/child_process.h"
#include "phalanx/os/cpu_topology.h"
#include "phalanx/os/event_loop.h"
#include "phalanx/os/memfd.h"
#include "phalanx/wire/bootstrap.h"

namespace phalanx::fleet {

class OneShotChild;

// Fills the weight arena in a process of its own, so that neither the memory for reading a
// checkpoint nor a crash in it is the leader's. The arena is sealed before it is handed out: nobody
// can write to it afterwards.
//
// Ownership: owns the child and, until it is handed out, the arena.
// Threads: the loop thread.
class WeightLoader {
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

  // Starts with the next turn of the loop, before which it must not be destroyed. `done` runs once,
  // from the loop, when the loader has ended: with the arena, with its own error, or with how it
  // died. It may destroy this.
  WeightLoader(os::EventLoop& loop, Start start, Progress progress, Done done);
  WeightLoader(const WeightLoader&) = delete;
  WeightLoader& operator=(const WeightLoader&) = delete;
  ~WeightLoader();

 private:
  void finish(Status status);

  os::EventLoop& loop_;
  Progress progress_;
  Done done_;
  os::Memfd arena_;
  std::unique_ptr<OneShotChild> child_;
};

}  // namespace phalanx::fleet
