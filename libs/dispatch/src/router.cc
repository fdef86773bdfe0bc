// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/router.h"

#include <algorithm>
#include <utility>

#include "phalanx/step/limits.h"
#include "phalanx/wire/limits.h"

namespace phalanx::dispatch {

Router::Router(std::size_t replicas, std::unique_ptr<Policy> policy)
    : table_(replicas), ledger_(replicas), prefixes_(replicas), policy_(std::move(policy)) {}

std::uint64_t Router::to_compute(ReplicaId replica, const Work& work) const {
  const std::uint64_t known = replica == work.computes_prompt
                                  ? work.prompt_tokens
                                  : prefixes_.known_tokens(replica, work.prefix);
  // As a replica does it: full blocks are shared, and the last token is always computed.
  const std::uint64_t tokens = work.remainder.to_compute;
  const std::uint64_t most = tokens - std::min<std::uint64_t>(tokens, 1);
  return tokens - std::min(known, most) / step::kBlockTokens * step::kBlockTokens;
}

bool Router::may_take(ReplicaId replica, const Where& where) const {
  const ReplicaEntry& entry = table_.at(replica);
  const bool same_numerics = !where.fingerprint || entry.numerics_fingerprint == *where.fingerprint;
  return same_numerics && (where.only ? replica == *where.only : !entry.reserved);
}

bool Router::any_serves(SteadyTime now, const Where& where) const {
  for (std::uint32_t i = 0; i < table_.size(); ++i) {
    if (may_take(ReplicaId(i), where) && table_.serves(ReplicaId(i), now)) {
      return true;
    }
  }
  return false;
}

std::optional<ReplicaId> Router::dispatch(const wire::SequenceKey& key,
                                          const Work& work,
                                          SteadyTime now,
                                          const Where& where) {
  std::vector<Candidate> candidates;
  for (std::uint32_t i = 0; i < table_.size(); ++i) {
    const ReplicaId replica(i);
    const bool has_room = ledger_.open(replica).size() < wire::kMaxQueuedChoices;
    if (has_room && may_take(replica, where) && table_.usable(replica, now)) {
      candidates.push_back({replica, ledger_.pending(replica).total() + to_compute(replica, work)});
    }
  }
  if (where.avoid && candidates.size() > 1) {
    std::erase_if(candidates,
                  [&](const Candidate& candidate) { return candidate.replica == *where.avoid; });
  }
  if (candidates.empty()) {
    return std::nullopt;
  }
  const ReplicaId chosen = candidates[policy_->choose(candidates)].replica;
  ledger_.book(chosen, key, {to_compute(chosen, work), work.remainder.to_generate});
  table_.at(chosen).breaker.on_dispatch(key, now);
  return chosen;
}

void Router::report(ReplicaId replica, const wire::SequenceKey& key, Remainder remainder) {
  const auto& open = ledger_.open(replica);
  const auto before = open.find(key);
  if (before != open.end() && remainder.to_compute < before->second.to_compute) {
    table_.at(replica).breaker.on_progress(key);
  }
  ledger_.set(replica, key, remainder);
}

void Router::settle(ReplicaId replica, const wire::SequenceKey& key) {
  ledger_.settle(replica, key);
  table_.at(replica).breaker.on_ended(key);
}

std::vector<wire::SequenceKey> Router::lose(ReplicaId replica) {
  table_.at(replica).breaker.reset();
  prefixes_.forget(replica);
  return ledger_.settle_all(replica);
}

}  // namespace phalanx::dispatch
