// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/replica_table.h"

#include <algorithm>

namespace phalanx::dispatch {

bool ReplicaTable::usable(ReplicaId replica, SteadyTime now) const {
  return serves(replica, now) && !at(replica).blocked;
}

bool ReplicaTable::serves(ReplicaId replica, SteadyTime now) const {
  const ReplicaEntry& entry = at(replica);
  const bool takes = entry.draining ? entry.alive && !any_open() : entry.ready;
  return takes && entry.breaker.allows(now);
}

bool ReplicaTable::any_open() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const ReplicaEntry& entry) {
    return !entry.draining && !entry.failed;
  });
}

std::size_t ReplicaTable::ready_count() const {
  return static_cast<std::size_t>(std::count_if(
      entries_.begin(), entries_.end(), [](const ReplicaEntry& entry) { return entry.ready; }));
}

std::size_t ReplicaTable::open_count() const {
  return static_cast<std::size_t>(
      std::count_if(entries_.begin(), entries_.end(), [](const ReplicaEntry& entry) {
        return entry.ready && !entry.draining;
      }));
}

bool ReplicaTable::all_draining() const {
  return std::all_of(
      entries_.begin(), entries_.end(), [](const ReplicaEntry& entry) { return entry.draining; });
}

}  // namespace phalanx::dispatch
