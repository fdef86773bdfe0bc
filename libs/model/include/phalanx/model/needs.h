// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "phalanx/checkpoint/inspect.h"
#include "phalanx/model/memory_plan.h"

namespace phalanx::model {

// The memory that an inspected model takes under `request`, whose max_model_len of 0 is the model's
// own. Absent for a model that is not supported, and where topology or memory do not fit, which
// then become obstacles of the inspection.
[[nodiscard]] std::optional<MemoryPlan> needs_of(checkpoint::Inspection& inspection,
                                                 const MemoryRequest& request);

}  // namespace phalanx::model
