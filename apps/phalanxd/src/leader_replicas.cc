// SPDX-License-Identifier: Apache-2.0
// What becomes of the replicas, told to the requests in flight and to the life of the leader.
#include "phalanx/obs/log.h"

#include "leader.h"

namespace phalanx::app {

fleet::ReplicaEvents Leader::replica_events() {
  fleet::ReplicaEvents events;
  events.on_ready = [this](ReplicaId replica, std::uint64_t numerics_fingerprint) {
    dispatch::ReplicaEntry& entry = router_.table().at(replica);
    entry.numerics_fingerprint = numerics_fingerprint;
    entry.ready = true;
    dispatcher_->on_replica_ready(replica);
    life_.post(fleet::LeaderEvent::kReplicaReady);
    announce_once();
  };
  events.on_down = [this](ReplicaId replica) { router_.table().at(replica).ready = false; };
  events.on_started = [this](ReplicaId replica) { router_.table().at(replica).failed = false; };
  events.on_alive = [this](ReplicaId replica, bool alive) {
    router_.table().at(replica).alive = alive;
  };
  events.on_lost = [this](ReplicaId replica) {
    router_.table().at(replica).ready = false;
    router_.table().at(replica).alive = false;
    metrics_.forget_replica(replica);
    dispatcher_->on_replica_lost(replica);
  };
  events.on_unformed = [this](ReplicaId replica) {
    if (const std::size_t moved = dispatcher_->relieve(replica); moved > 0) {
      obs::log_info("sequences_moved", {{"from", replica.value()}, {"sequences", moved}});
    }
  };
  events.on_died = [this](ReplicaId replica, bool own, const std::string& how) {
    return dispatcher_->on_replica_died(replica, own, how);
  };
  events.on_draining = [this](ReplicaId replica, bool draining) {
    router_.table().at(replica).draining = draining;
  };
  events.on_tokens = [this](ReplicaId replica, const wire::TokenBatch& batch) {
    dispatcher_->on_token_batch(replica, batch);
  };
  events.on_holding = [this](ReplicaId replica, const wire::ReplicaHolding& holding) {
    dispatcher_->on_holding(replica, holding);
  };
  events.on_prefix_changes = [this](ReplicaId replica, const wire::PrefixChanges& changes) {
    router_.prefixes().apply(replica, changes);
  };
  events.on_reaped = [this](ReplicaId) {
    life_.post(fleet::LeaderEvent::kReplicaDied);
    announce_once();
  };
  events.on_failed = [this](ReplicaId replica, const Error& cause) {
    router_.table().at(replica).failed = true;
    dispatcher_->on_replica_failed(replica);
    on_replica_failed(cause);
  };
  events.on_rolled = [this] { life_.post(fleet::LeaderEvent::kRolled); };
  events.on_stopped = [this] { life_.post(fleet::LeaderEvent::kGone); };
  return events;
}

}  // namespace phalanx::app
