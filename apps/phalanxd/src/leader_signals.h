// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/base/result.h"
#include "phalanx/os/unique_fd.h"

namespace phalanx::app {

// From here to the end of the process SIGHUP, SIGINT and SIGTERM wait until somebody takes them, in
// this thread and in all that it begins: none is lost between two who listen, and one that comes
// when nobody does any more has no effect. Before there is another thread.
void hold_signals();

// SIGINT or SIGTERM, if one has come; otherwise 0.
// Blocks: never.
[[nodiscard]] int take_end_signal();

// Readable while one of the three waits.
// Errors: kResourceExhausted.
[[nodiscard]] Result<os::UniqueFd> open_signals();

// The next one that waits, from what open_signals() gave; otherwise 0.
// Blocks: never.
[[nodiscard]] int take_signal(const os::UniqueFd& signals);

}  // namespace phalanx::app
