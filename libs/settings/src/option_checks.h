// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/base/result.h"
#include "phalanx/settings/options.h"

namespace phalanx::settings {

// Whether the values of single options are what the processes of a server can be told.
//
// Errors: kInvalidArgument  names the option, what was expected and what was found
[[nodiscard]] Status check_values(const Options& options);

}  // namespace phalanx::settings
