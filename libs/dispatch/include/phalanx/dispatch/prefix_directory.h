// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::dispatch {

// What the leader knows of the prefix caches of its replicas: their hashes as last told. A hint,
// never a promise: blocks come and go while a request is on its way.
//
// Threads: one (the leader's loop).
class PrefixDirectory {
 public:
  explicit PrefixDirectory(std::size_t replicas) : known_(replicas) {}

  void apply(ReplicaId replica, const wire::PrefixChanges& changes);

  // The incarnation is over, and its KV with it.
  void forget(ReplicaId replica) { known_.at(replica.value()).clear(); }

  // Tokens of the longest beginning named by `hashes` (step::extend_prefix_hashes()) that the
  // replica has.
  [[nodiscard]] std::uint64_t known_tokens(ReplicaId replica,
                                           std::span<const std::uint64_t> hashes) const;

 private:
  std::vector<std::unordered_set<std::uint64_t>> known_;
};

}  // namespace phalanx::dispatch
