// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "phalanx/base/result.h"

namespace phalanx::admin {

// The status document of a server as a table for people: a line for the server, one per replica,
// one per rank.
//
// Errors: kDataLoss if the document is not what a server of this version sends.
[[nodiscard]] Result<std::string> status_table(const std::string& document);

}  // namespace phalanx::admin
