// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/base/result.h"

#include "options.h"

namespace phalanx::app {

// Prints what the model at a path is and what it would need, and starts nothing. The first
// obstacle, after everything was printed, is the outcome.
[[nodiscard]] Status inspect(const CtlOptions& options);

}  // namespace phalanx::app
