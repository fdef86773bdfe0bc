// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "phalanx/loadgen/report.h"

#include "options.h"

namespace phalanx::load {

// Whether a result can be written where `options` want it, found out before hours are measured for
// it: makes the folder. Leaves no file, and no change in one that is there.
//
// Errors: what the errno of the attempt means, with the path
[[nodiscard]] Status check_result_place(const Options& options);

// Writes the result as JSON and tells where. A file that was there is replaced by the whole result
// or stays as it is, but where its folder takes no other file, or it cannot be replaced (a mount).
//
// Errors: kResourceExhausted
[[nodiscard]] Result<std::string> save_report(const Options& options,
                                              const loadgen::Report& report);

}  // namespace phalanx::load
