// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/base/result.h"

#include "options.h"

namespace phalanx::load {

// Host, port and paths from --base-url, --host and --endpoint, which is set.
// Errors: kInvalidArgument, with the flag
[[nodiscard]] Status apply_address(Options* options);

// The header fields of every request from --header.
// Errors: kInvalidArgument
[[nodiscard]] Status add_headers(Options* options);

}  // namespace phalanx::load
