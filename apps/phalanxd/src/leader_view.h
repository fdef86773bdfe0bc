// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/admin/status_document.h"
#include "phalanx/dispatch/dispatcher.h"
#include "phalanx/dispatch/router.h"
#include "phalanx/fleet/replica_slots.h"
#include "phalanx/fleet/worker_command.h"

namespace phalanx::app {

// What dispatch and the replicas show of themselves; model, phase and what has finished are left
// out.
[[nodiscard]] admin::ServerView server_view(const dispatch::Router& router,
                                            const dispatch::Dispatcher& dispatcher,
                                            const fleet::ReplicaSlots& replicas,
                                            const std::vector<fleet::WorkerWrapper>& wrappers);

}  // namespace phalanx::app
