// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/base/clock.h"
#include "phalanx/base/result.h"
#include "phalanx/wire/admin_messages.h"

#include "options.h"

namespace phalanx::app {

// Asks the server that --port and --uid name. Blocks and errors: as admin::admin_call().
[[nodiscard]] Result<wire::AdminAnswer> call(const CtlOptions& options,
                                             const wire::AdminRequest& request,
                                             Duration timeout);

// The same for its status; also kResourceExhausted where it refuses that, since it hears too many
// others, and kDataLoss where it answers something else.
[[nodiscard]] Result<wire::ServerStatus> ask_status(const CtlOptions& options, Duration timeout);

}  // namespace phalanx::app
