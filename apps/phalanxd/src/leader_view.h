// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/dispatch/dispatcher.h"
#include "phalanx/dispatch/router.h"
#include "phalanx/fleet/replica_slots.h"
#include "phalanx/fleet/worker_command.h"
#include "phalanx/keeper/fronts.h"
#include "phalanx/wire/admin_messages.h"

namespace phalanx::app {

// What dispatch and the replicas show of themselves; model, state, fronts and what has finished are
// left out.
[[nodiscard]] wire::ServerStatus server_view(const dispatch::Router& router,
                                             const dispatch::Dispatcher& dispatcher,
                                             const fleet::ReplicaSlots& replicas,
                                             const std::vector<fleet::WorkerWrapper>& wrappers);

// The same of a front.
[[nodiscard]] wire::ShownFront front_view(const keeper::FrontView& front);

}  // namespace phalanx::app
