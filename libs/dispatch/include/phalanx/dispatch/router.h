// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/dispatch/policy.h"
#include "phalanx/dispatch/prefix_directory.h"
#include "phalanx/dispatch/replica_table.h"
#include "phalanx/dispatch/token_ledger.h"

namespace phalanx::dispatch {

// What an attempt asks of a replica.
struct Work {
  Remainder remainder;                            // where nothing of it is known
  std::span<const std::uint64_t> prefix = {};     // hashes of the prompt's full blocks
  std::optional<ReplicaId> computes_prompt = {};  // for another choice of the request …
  std::uint64_t prompt_tokens = 0;                // … so many: its full blocks are shared there
};

// Where an attempt may run.
struct Where {
  // Left out while another one is usable: the replica that has just failed this request.
  std::optional<ReplicaId> avoid = {};
  // Only a replica of equal numerics: one that differs never goes on with a stream.
  std::optional<std::uint64_t> fingerprint = {};
  // That replica or none; without, none that is reserved.
  std::optional<ReplicaId> only = {};
};

// Decides where an attempt runs and books it. Always in the path, with one replica too.
//
// Ownership: owns table, ledger and policy.
// Threads: one (the leader's loop).
class Router {
 public:
  Router(std::size_t replicas, std::unique_ptr<Policy> policy);

  // Whether a replica serves that dispatch() would choose among if all had room.
  [[nodiscard]] bool any_serves(SteadyTime now, const Where& where = {}) const;

  // Books `key` on a usable replica and returns it; nothing if none is usable now. A replica's load
  // is what it owes and what of `work` it would have to compute, which is then booked. None has
  // more than wire::kMaxQueuedChoices attempts open: it would refuse them.
  [[nodiscard]] std::optional<ReplicaId> dispatch(const wire::SequenceKey& key,
                                                  const Work& work,
                                                  SteadyTime now,
                                                  const Where& where = {});

  // What the replica says that it still owes of an attempt. Ignored for one that is not open.
  void report(ReplicaId replica, const wire::SequenceKey& key, Remainder remainder);

  // Ends an attempt on a replica. Harmless for one that is not open.
  void settle(ReplicaId replica, const wire::SequenceKey& key);

  // The replica's incarnation is over: ends all its attempts and returns their keys.
  [[nodiscard]] std::vector<wire::SequenceKey> lose(ReplicaId replica);

  [[nodiscard]] ReplicaTable& table() { return table_; }
  [[nodiscard]] const ReplicaTable& table() const { return table_; }
  [[nodiscard]] TokenLedger& ledger() { return ledger_; }
  [[nodiscard]] const TokenLedger& ledger() const { return ledger_; }

  [[nodiscard]] PrefixDirectory& prefixes() { return prefixes_; }

 private:
  [[nodiscard]] std::uint64_t to_compute(ReplicaId replica, const Work& work) const;
  [[nodiscard]] bool may_take(ReplicaId replica, const Where& where) const;

  ReplicaTable table_;
  TokenLedger ledger_;
  PrefixDirectory prefixes_;
  std::unique_ptr<Policy> policy_;
};

}  // namespace phalanx::dispatch
