// SPDX-License-Identifier: Apache-2.0
// How workers are started: `PROGRAM worker ROLE`, on their own or under a command.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/os/child_process.h"

namespace phalanx::fleet {

enum class WorkerRole { kRank, kReplica, kLoader, kPlanner };

// The program of workers, beside that of the leader.
inline constexpr std::string_view kWorkerProgram = "phalanx-worker";

// How a process names the program that it is itself.
inline constexpr std::string_view kOwnProgram = "/proc/self/exe";

// The first argument of a worker; the second is its role.
inline constexpr std::string_view kWorkerMode = "worker";

// "rank", "replica", "loader", "planner"
[[nodiscard]] std::string_view to_string(WorkerRole role);
[[nodiscard]] std::optional<WorkerRole> parse_worker_role(std::string_view text);

// "rank dp0.tp1", "replica dp0": how logs, ps and selectors call it.
[[nodiscard]] std::string name_of(ReplicaId replica);
[[nodiscard]] std::string name_of(ReplicaId replica, RankId rank);

// What selected workers run under: --worker-wrapper 'SELECTOR=COMMAND'.
struct WorkerWrapper {
  WorkerRole role = WorkerRole::kRank;
  std::optional<ReplicaId> replica;  // none: all
  std::optional<RankId> rank;        // none: all
  std::vector<std::string> command;  // at least the program
  std::string text;                  // as it was given

  [[nodiscard]] std::string command_text() const { return text.substr(text.find('=') + 1); }
  [[nodiscard]] bool selects(ReplicaId of, RankId with) const;  // a rank
  [[nodiscard]] bool selects(ReplicaId which) const;            // a replica
};

// The text after --worker-wrapper. SELECTOR is "rank" or "rank:*", "rank:dp0", "rank:dp0.tp1",
// "replica" or "replica:*", "replica:dp0", "loader". COMMAND is cut into words as a shell does:
// at blanks, but for '…', "…" and \; nothing is expanded.
//
// Errors: kInvalidArgument that says what was expected.
[[nodiscard]] Result<WorkerWrapper> parse_worker_wrapper(const std::string& text);

// The last of `wrappers` that selects the worker, or null.
[[nodiscard]] const WorkerWrapper* wrapper_of(const std::vector<WorkerWrapper>& wrappers,
                                              ReplicaId replica,
                                              RankId rank);
[[nodiscard]] const WorkerWrapper* wrapper_of(const std::vector<WorkerWrapper>& wrappers,
                                              ReplicaId replica);
[[nodiscard]] const WorkerWrapper* loader_wrapper(const std::vector<WorkerWrapper>& wrappers);

// How a worker is started. `program` is that of workers: what an os::HeldProgram of the leader
// names, or, for a worker's own children, what stood before `worker` in its arguments (mostly
// kOwnProgram). With a wrapper the command comes first, its program is looked for in PATH, the
// worker gets the PATH, HOME and TERM of this process, and it leads a group, so that nothing of it
// outlives it and what is for the leader's group does not reach it. Without one signals for the
// leader's group wait until the worker ignores them.
[[nodiscard]] os::SpawnPlan worker_plan(WorkerRole role,
                                        const WorkerWrapper* wrapper,
                                        const std::string& program);

// The same for a replica, with the wrappers of its ranks as further arguments.
[[nodiscard]] os::SpawnPlan replica_plan(const std::vector<WorkerWrapper>& wrappers,
                                         ReplicaId replica,
                                         const std::string& program);

// The file that a wrapper's first word means: itself if it has a slash, else looked up in PATH.
// Errors: kNotFound naming it.
[[nodiscard]] Result<std::string> find_program(const std::string& name);

}  // namespace phalanx::fleet
