// SPDX-License-Identifier: Apache-2.0
// The kinds of model that config.json can name, as options of one transformer.
#pragma once

#include "phalanx/base/result.h"
#include "phalanx/checkpoint/config.h"
#include "phalanx/json/fields.h"

namespace phalanx::checkpoint {

struct Architecture;

// The row of the table that model_type names. Lives as long as the program.
//
// Errors: kInvalidArgument  no model_type
//         kUnimplemented    one that is not in the table; the message names those that are
[[nodiscard]] Result<const Architecture*> architecture_of(const json::Fields& fields);

// Sets model_type and the options of the layers that `architecture` and its fields ask for, and
// leaves the positions that no sliding window cuts.
//
// Requires: config has its layers and max_position, behind finish_rope().
// Errors: kInvalidArgument  a field of the wrong type
//         kUnimplemented    a field that asks for what no option has; the message names the field,
//                           what is supported and what was found
Status read_architecture(const json::Fields& fields,
                         const Architecture& architecture,
                         ModelConfig& config);

}  // namespace phalanx::checkpoint
