// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/dispatch/dispatcher.h"
#include "phalanx/fleet/replica_host.h"

namespace phalanx::app {

// The replicas as the dispatcher reaches them. Borrows the host.
class FleetPort final : public dispatch::ReplicaPort {
 public:
  explicit FleetPort(fleet::ReplicaHost& replicas) : replicas_(replicas) {}
  [[nodiscard]] wire::Sent send(ReplicaId replica, const wire::LeaderMessage& message) override {
    return replicas_.send(replica, message);
  }

 private:
  fleet::ReplicaHost& replicas_;
};

}  // namespace phalanx::app
