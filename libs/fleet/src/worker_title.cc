// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/worker_title.h"

namespace phalanx::fleet {

os::SpawnPlan spawn_plan(const std::string& role) {
  os::SpawnPlan plan;
  plan.arguments = {std::string(kWorkerTitlePrefix) + role};
  return plan;
}

}  // namespace phalanx::fleet
