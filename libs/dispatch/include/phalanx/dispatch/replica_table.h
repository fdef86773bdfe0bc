// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/base/ids.h"
#include "phalanx/dispatch/circuit_breaker.h"

namespace phalanx::dispatch {

// What dispatch knows of one replica. The dispatcher sets `reserved`, `blocked` and `breaker`; who
// supervises replicas sets the rest.
struct ReplicaEntry {
  bool ready = false;   // passed its self-test in this incarnation, heartbeat moves, not recovering
  bool alive = false;   // would compute what it were given, drained or not
  bool failed = false;  // dead, and not started again by itself
  bool draining = false;  // an operator wants no new work here
  bool reserved = false;  // for the suspects of its last death alone
  bool blocked = false;   // its link took nothing, or it is full; tried again with the next tick
  std::uint64_t numerics_fingerprint = 0;
  CircuitBreaker breaker;
};

// Threads: one (the leader's loop).
class ReplicaTable {
 public:
  explicit ReplicaTable(std::size_t replicas) : entries_(replicas) {}

  [[nodiscard]] ReplicaEntry& at(ReplicaId replica) { return entries_.at(replica.value()); }
  [[nodiscard]] const ReplicaEntry& at(ReplicaId replica) const {
    return entries_.at(replica.value());
  }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

  // May this replica be given work at `now`? One that is drained may where nobody else can be hoped
  // for: what was accepted is finished there.
  [[nodiscard]] bool usable(ReplicaId replica, SteadyTime now) const;

  // The same of one that has no room now.
  [[nodiscard]] bool serves(ReplicaId replica, SteadyTime now) const;

  [[nodiscard]] std::size_t ready_count() const;

  // Some replica that is not drained serves, or will.
  [[nodiscard]] bool any_open() const;

  // Those that are ready and not drained: at 0 nothing new is taken now.
  [[nodiscard]] std::size_t open_count() const;

  // An operator has drained them all: nothing new is taken until one is resumed.
  [[nodiscard]] bool all_draining() const;

 private:
  std::vector<ReplicaEntry> entries_;
};

}  // namespace phalanx::dispatch
