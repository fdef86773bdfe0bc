// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "phalanx/obs/log.h"
#include "phalanx/os/memory_placement.h"

namespace phalanx::fleet {

// Places memory that has not been given yet (os::place_on_nodes()). That it may lie elsewhere costs
// speed and nothing else, so a kernel that does not let it is told to the operator only.
inline void place(const os::Memfd& memory, const std::string& name, const os::NodeList& nodes) {
  if (const Status placed = os::place_on_nodes(memory, nodes); !placed) {
    obs::log_warn("memory_not_placed", {{"memory", name}, {"error", placed.error().message()}});
  }
}

}  // namespace phalanx::fleet
