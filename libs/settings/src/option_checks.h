// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/settings/options.h"

namespace phalanx::settings {

// Whether the values of single options are what the processes of a server can be told.
//
// Errors: kInvalidArgument  names the option, what was expected and what was found
[[nodiscard]] Status check_values(const Options& options);

// Whether the flags that were given on the command line have an effect. `given` is their first
// names. Other sources are not asked: environment and file may be those of a server, too.
//
// Errors: kInvalidArgument  names the flag
[[nodiscard]] Status check_given(const Options& options, const std::vector<std::string>& given);

}  // namespace phalanx::settings
