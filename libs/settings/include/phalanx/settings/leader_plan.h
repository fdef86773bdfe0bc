// SPDX-License-Identifier: Apache-2.0
// From the options of a server and what a planner has made of its model to what its processes are
// told. Nothing here has seen a file of the model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/fleet/replica_host.h"
#include "phalanx/keeper/doors.h"
#include "phalanx/keeper/front_start.h"
#include "phalanx/os/cpu_set.h"
#include "phalanx/os/cpu_topology.h"
#include "phalanx/settings/options.h"
#include "phalanx/wire/bootstrap.h"

namespace phalanx::settings {

// Whether ranks compute nothing, so that they have no weights and no kernels.
[[nodiscard]] bool is_simulated(const Options& options);

// What the leader knows before it starts a server.
struct LeaderPlan {
  wire::ServerPlan made;                   // by the planner
  std::string model_name;                  // what clients call it, and answers and metrics
  std::vector<std::string> model_aliases;  // what clients may call it besides
  std::int64_t created = 0;                // seconds since 1970
  std::vector<os::CpuList> rank_cpus;      // dp · tp core sets, those of a replica together

  // 0 with the simulated runner, which has none.
  [[nodiscard]] std::uint64_t arena_bytes(const Options& options) const;
};

// What the planner is told.
// Errors: kInvalidArgument for what it would refuse to read.
[[nodiscard]] Result<wire::PlannerBootstrap> planner_bootstrap_of(const Options& options);

// The core sets of all ranks: those of --devices, or derived from the cores that this process may
// use.
// Errors: kInvalidArgument for --devices that do not fit.
[[nodiscard]] Result<std::vector<os::CpuList>> core_sets_of(const Options& options);

[[nodiscard]] LeaderPlan leader_plan_of(const Options& options,
                                        wire::ServerPlan made,
                                        std::vector<os::CpuList> rank_cpus);

// The nodes of memory whose CPUs read the weights: those of all ranks, or, where these are not
// pinned, of all CPUs that they may run on.
[[nodiscard]] os::NodeList weight_nodes_of(const LeaderPlan& plan);

// What the loader is told.
[[nodiscard]] wire::LoaderBootstrap loader_bootstrap_of(const Options& options,
                                                        const LeaderPlan& plan);

// What the replicas are told at their start, with secrets drawn anew. `program` is that of workers.
[[nodiscard]] fleet::ReplicaStart replica_start_of(const Options& options,
                                                   const LeaderPlan& plan,
                                                   const std::string& program);

// What fronts are told that the model is called, as wire::FrontBootstrap has it.
[[nodiscard]] std::string names_for_fronts(const LeaderPlan& plan);

// Where clients come in, and what fronts are told at their start.
[[nodiscard]] keeper::DoorOptions doors_of(const Options& options);
// Errors: kNotFound if the program of a front does not lie beside this one; kInvalidArgument for
// what a front would refuse.
[[nodiscard]] Result<keeper::FrontStart> front_start_of(const Options& options,
                                                        const LeaderPlan& plan);

}  // namespace phalanx::settings
