// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "phalanx/checkpoint/inspect.h"
#include "phalanx/model/memory_plan.h"

namespace phalanx::app {

// Whatever the files of the model hold, what is returned is printable.
//
// `memory` is what the model needs under `request`; absent if that could not be planned.

// For people: one fact a line, the verdict last.
[[nodiscard]] std::string inspection_text(const checkpoint::Inspection& inspection,
                                          const std::optional<model::MemoryPlan>& memory,
                                          const model::MemoryRequest& request);

// For programs: one JSON object; sizes in bytes.
[[nodiscard]] std::string inspection_json(const checkpoint::Inspection& inspection,
                                          const std::optional<model::MemoryPlan>& memory,
                                          const model::MemoryRequest& request);

}  // namespace phalanx::app
