// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/token_ledger.h"

#include "phalanx/base/check.h"

namespace phalanx::dispatch {

TokenLedger::TokenLedger(std::size_t replicas) : accounts_(replicas) {}

void TokenLedger::book(ReplicaId replica, const wire::SequenceKey& key, Remainder remainder) {
  Account& account = accounts_.at(replica.value());
  const bool inserted = account.open.emplace(key, remainder).second;
  PHALANX_CHECK(inserted, "an attempt is booked once");
  account.sum.to_compute += remainder.to_compute;
  account.sum.to_generate += remainder.to_generate;
}

void TokenLedger::set(ReplicaId replica, const wire::SequenceKey& key, Remainder remainder) {
  Account& account = accounts_.at(replica.value());
  const auto entry = account.open.find(key);
  if (entry == account.open.end()) {
    return;
  }
  account.sum.to_compute += remainder.to_compute - entry->second.to_compute;
  account.sum.to_generate += remainder.to_generate - entry->second.to_generate;
  entry->second = remainder;
}

void TokenLedger::settle(ReplicaId replica, const wire::SequenceKey& key) {
#ifndef PHALANX_MUTATE_NO_SETTLE
  set(replica, key, {});
#endif
  accounts_.at(replica.value()).open.erase(key);
}

std::vector<wire::SequenceKey> TokenLedger::settle_all(ReplicaId replica) {
  std::vector<wire::SequenceKey> keys;
  for (const auto& [key, remainder] : accounts_.at(replica.value()).open) {
    keys.push_back(key);
  }
  for (const wire::SequenceKey& key : keys) {
    settle(replica, key);
  }
  return keys;
}

Remainder TokenLedger::pending(ReplicaId replica) const {
  return accounts_.at(replica.value()).sum;
}

std::size_t TokenLedger::open_attempts(ReplicaId replica) const {
  return accounts_.at(replica.value()).open.size();
}

Remainder TokenLedger::recount(ReplicaId replica) const {
  Remainder total;
  for (const auto& [key, remainder] : accounts_.at(replica.value()).open) {
    total.to_compute += remainder.to_compute;
    total.to_generate += remainder.to_generate;
  }
  return total;
}

}  // namespace phalanx::dispatch
