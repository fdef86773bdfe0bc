// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/wire/bootstrap.h"

namespace phalanx::planning {

// What a model's files and the machine make of what was asked for.
struct Planned {
  wire::ServerPlan plan;                // the leader's decoder takes it
  std::string tokenizer_source;         // tokenizer::to_bytes(): what fronts make theirs from
  std::vector<std::string> warnings{};  // about the model, for the log
};

// Reads the model's folder or file (not its weights) and what memory and processor the machine has,
// and sizes a server. Everything of a model that can be refused is refused here, by name: what
// replicas, ranks and fronts would refuse, too.
//
// Blocks: reads files.
// Errors: those of the checkpoint, tokenizer and template; kInvalidArgument for settings that do
// not fit the model; kResourceExhausted for memory.
[[nodiscard]] Result<Planned> make_plan(const wire::PlannerBootstrap& asked);

}  // namespace phalanx::planning
