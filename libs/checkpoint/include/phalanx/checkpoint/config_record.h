// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "phalanx/base/result.h"
#include "phalanx/checkpoint/config.h"

namespace phalanx::checkpoint {

// A configuration as one text, a field a line, for processes that must not read the model's files:
// these may be gone or replaced while the server runs. Exact: floats travel by their bits.
[[nodiscard]] std::string to_record(const ModelConfig& config);

// Errors: kInvalidArgument  not what to_record() of this version wrote (which field)
[[nodiscard]] Result<ModelConfig> from_record(std::string_view record);

}  // namespace phalanx::checkpoint
