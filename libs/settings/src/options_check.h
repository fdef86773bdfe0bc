// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/base/result.h"
#include "phalanx/settings/options.h"

namespace phalanx::settings {

// What needs more than the table of flags to be checked, a model apart.
// Errors: kInvalidArgument naming the flag.
[[nodiscard]] Status check_options(const Options& options);

}  // namespace phalanx::settings
