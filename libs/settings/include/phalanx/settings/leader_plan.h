// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "phalanx/checkpoint/checkpoint.h"
#include "phalanx/fleet/replica_host.h"
#include "phalanx/keeper/doors.h"
#include "phalanx/keeper/front_host.h"
#include "phalanx/model/memory_plan.h"
#include "phalanx/os/cpu_set.h"
#include "phalanx/serving/served_model.h"
#include "phalanx/settings/options.h"
#include "phalanx/tokenizer/chat_template.h"
#include "phalanx/tokenizer/tokenizer.h"
#include "phalanx/wire/bootstrap.h"

namespace phalanx::settings {

// What the leader decides before it starts anything: everything that can be refused is refused
// here, by name.
struct LeaderPlan {
  checkpoint::ModelConfig config;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::unique_ptr<tokenizer::ChatTemplate> chat_template;  // null if the model has none
  std::unique_ptr<tokenizer::ChatTemplate> tool_template;  // null if tools have none of their own
  std::string tokenizer_source;  // tokenizer::to_bytes(): what fronts make theirs from
  serving::ServedModel model;
  model::MemoryPlan memory;
  std::vector<os::CpuList> rank_cpus;  // dp · tp core sets, those of a replica together
  std::string isa;                     // as resolved
  std::size_t arena_bytes = 0;         // 0 with the simulated runner
};

// Reads the model's folder (not its weights) and the machine.
// Errors: those of the checkpoint, tokenizer and template; kInvalidArgument for --devices, --tp or
// --max-model-len that do not fit; kResourceExhausted for memory.
[[nodiscard]] Result<LeaderPlan> make_leader_plan(const Options& options);

// What the loader is told.
[[nodiscard]] wire::LoaderBootstrap loader_bootstrap_of(const Options& options,
                                                        const LeaderPlan& plan);

// What the replicas are told at their start, with secrets drawn anew.
[[nodiscard]] fleet::ReplicaStart replica_start_of(const Options& options, const LeaderPlan& plan);

// Where clients come in, and what fronts are told at their start.
[[nodiscard]] keeper::DoorOptions doors_of(const Options& options);
// Errors: kNotFound if the program of a front does not lie beside this one; kInvalidArgument for
// what a front would refuse.
[[nodiscard]] Result<keeper::FrontStart> front_start_of(const Options& options,
                                                        const LeaderPlan& plan);

// The summary that is printed at start, one fact a line.
[[nodiscard]] std::string start_summary(const Options& options, const LeaderPlan& plan);

}  // namespace phalanx::settings
