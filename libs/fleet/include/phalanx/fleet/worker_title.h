// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "phalanx/os/child_process.h"

namespace phalanx::fleet {

// argv[0] of a worker begins so; what follows is its role, for ps.
inline constexpr std::string_view kWorkerTitlePrefix = "phalanxd: ";

// How a worker of that role is started: "rank dp0 tp1", "replica dp0", "loader node0".
[[nodiscard]] os::SpawnPlan spawn_plan(const std::string& role);

}  // namespace phalanx::fleet
