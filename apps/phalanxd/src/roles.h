// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "phalanx/base/ids.h"
#include "phalanx/engine/model_runner.h"
#include "phalanx/os/child_process.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::app {

// Seams where a test program puts faults into children; the shipped program uses none of them.
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

// argv[0] of a child begins so; what follows is its role, for ps.
inline constexpr std::string_view kChildTitlePrefix = "phalanxd: ";

// How a process of that role is started: "rank dp0 tp1", "replica dp0", "loader node0".
[[nodiscard]] os::SpawnPlan spawn_plan(const std::string& role);

// The life of a child process whose title is `title`; returns its exit status.
[[nodiscard]] int run_child(std::string_view title, const Seams& seams);

// The whole program: the leader, or a child if argv[0] says so. Throws nothing: an exception is
// told in one line, as the exit status of its cause.
[[nodiscard]] int run_phalanxd(int argc, char** argv, const Seams& seams);

}  // namespace phalanx::app
