// SPDX-License-Identifier: Apache-2.0
#include "phalanx/model/needs.h"

#include <utility>

#include "phalanx/model/shard_plan.h"

namespace phalanx::model {

std::optional<MemoryPlan> needs_of(checkpoint::Inspection& inspection,
                                   const MemoryRequest& request) {
  if (!inspection.config.has_value()) {
    return std::nullopt;
  }
  if (auto shard = plan_shard(*inspection.config, 0, request.ranks); !shard) {
    inspection.obstacles.push_back({"topology", std::move(shard).error()});
    return std::nullopt;
  }
  auto plan = plan_memory(*inspection.config, request);
  if (!plan) {
    inspection.obstacles.push_back({"memory", std::move(plan).error()});
    return std::nullopt;
  }
  return *std::move(plan);
}

}  // namespace phalanx::model
