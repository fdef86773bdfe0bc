// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "phalanx/base/result.h"

namespace phalanx::admin {

// The status document of a server as a table for people: a line for the server, one per replica,
// one per rank. What the document holds is printable in it, whatever it holds.
//
// Errors: kDataLoss if the document is not what a server of this version sends.
[[nodiscard]] Result<std::string> status_table(const std::string& document);

// The same document for programs, in one line of ASCII.
//
// Errors: kDataLoss if it is no JSON object.
[[nodiscard]] Result<std::string> status_line(const std::string& document);

}  // namespace phalanx::admin
