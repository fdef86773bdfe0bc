// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "phalanx/model/memory_plan.h"
#include "phalanx/modelfile/inspect.h"

namespace phalanx::app {

// For people: one fact a line, the verdict last.
[[nodiscard]] std::string inspection_text(const modelfile::Inspection& inspection,
                                          const model::MemoryRequest& request);

// For programs: one JSON object; sizes in bytes.
[[nodiscard]] std::string inspection_json(const modelfile::Inspection& inspection,
                                          const model::MemoryRequest& request);

}  // namespace phalanx::app
