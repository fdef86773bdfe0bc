// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/base/result.h"

#include "options.h"

namespace phalanx::app {

// Prints the status of the server; with --watch again and again, until the output takes no more. A
// server that is away meanwhile is told of and waited for: only one that will not be heard ends it.
[[nodiscard]] Status show_status(const CtlOptions& options);

}  // namespace phalanx::app
