// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "phalanx/base/result.h"
#include "phalanx/flags/flag_table.h"

namespace phalanx::bench {

// The main program of a benchmark with flags: parses arguments and environment into what `flags`
// fills, prints help or version if they are asked for, and runs `body` otherwise. Returns the exit
// status; an error is one line on stderr, that begins with `name`.
[[nodiscard]] int bench_main(const std::string& name,
                             flags::FlagTable& flags,
                             int argc,
                             char** argv,
                             const std::function<Status()>& body);

}  // namespace phalanx::bench
