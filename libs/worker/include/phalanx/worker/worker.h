// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "phalanx/base/ids.h"
#include "phalanx/engine/model_runner.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::worker {

// Seams where a test program puts faults into workers; the shipped program uses none of them.
struct Seams {
  // Wraps the runner of a rank, or leaves it.
  std::function<std::unique_ptr<engine::ModelRunner>(
      std::unique_ptr<engine::ModelRunner>, ReplicaId, RankId)>
      wrap_runner;
  // Runs at the start of a rank, before it has said anything.
  std::function<void(ReplicaId, RankId)> at_rank_start;
  // Runs inside a replica engine for each message that it is about to send to the leader.
  std::function<void(ReplicaId, Incarnation, const wire::ReplicaMessage&)> before_replica_send;
};

// The life of a worker process, `PROGRAM worker planner|loader|replica|rank`
// (fleet/worker_command.h): what it is and gets comes over the inherited control socket. Sets the
// command line that ps shows. Returns its exit status; one that nobody gave a control socket is
// refused in one line.
[[nodiscard]] int run_worker(int argc, char** argv, const Seams& seams);

}  // namespace phalanx::worker
