// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/base/result.h"
#include "phalanx/wire/admin_messages.h"

#include "options.h"

namespace phalanx::app {

// Has the server carry out a command other than "status". With --wait it returns when that is
// finished: the drained replica has nothing left to do, the resumed or restarted one is ready.
//
// Blocks: --timeout at most.
// Errors: as admin::admin_call(); kFailedPrecondition it was refused; with --wait also
// kDeadlineExceeded the server took it, and goes on with it; kUnavailable the replica has failed.
[[nodiscard]] Status operate(const CtlOptions& options, const wire::AdminRequest& request);

}  // namespace phalanx::app
