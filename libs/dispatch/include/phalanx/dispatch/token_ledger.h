// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "phalanx/base/ids.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::dispatch {

// Tokens that a replica still owes: prompt and history whose KV is to be computed, and tokens it
// may still generate.
struct Remainder {
  std::uint64_t to_compute = 0;
  std::uint64_t to_generate = 0;

  [[nodiscard]] std::uint64_t total() const { return to_compute + to_generate; }
  friend bool operator==(const Remainder&, const Remainder&) = default;
};

// The only place that counts pending tokens. An attempt is booked at dispatch, set to the absolute
// remainders that the replica reports, and settled (set to zero) when it ends, however it ends.
// Nothing is ever added to a booked attempt, so a lost, late or doubled report cannot skew the sum:
// the next one repairs it, and the end repairs everything.
//
// Invariant: the sum of a replica equals the recount over its open attempts; with no open attempt
// it is zero.
// Threads: one (the leader's loop).
class TokenLedger {
 public:
  explicit TokenLedger(std::size_t replicas);

  // Requires that `key` is not open.
  void book(ReplicaId replica, const wire::SequenceKey& key, Remainder remainder);

  // Ignored for an attempt that is not open on that replica: a late report of a settled attempt
  // changes nothing.
  void set(ReplicaId replica, const wire::SequenceKey& key, Remainder remainder);

  // Ends an attempt. Harmless for one that is not open.
  void settle(ReplicaId replica, const wire::SequenceKey& key);

  // Ends every attempt on a replica (its death) and returns their keys.
  std::vector<wire::SequenceKey> settle_all(ReplicaId replica);

  // The open attempts of a replica in the order of their keys; valid until the next change.
  [[nodiscard]] const std::map<wire::SequenceKey, Remainder>& open(ReplicaId replica) const {
    return accounts_.at(replica.value()).open;
  }

  [[nodiscard]] Remainder pending(ReplicaId replica) const;
  [[nodiscard]] std::size_t open_attempts(ReplicaId replica) const;

  // The sum counted again from the open attempts; equal to pending() at any moment.
  [[nodiscard]] Remainder recount(ReplicaId replica) const;

 private:
  struct Account {
    Remainder sum;
    std::map<wire::SequenceKey, Remainder> open;
  };
  std::vector<Account> accounts_;
};

}  // namespace phalanx::dispatch
