// SPDX-License-Identifier: Apache-2.0
// What a replica tells its leader of steps, sequences and itself.
#include <algorithm>
#include <iterator>
#include <utility>

#include "phalanx/engine/replica_engine.h"
#include "phalanx/wire/limits.h"

namespace phalanx::engine {

namespace {

// What the leader reads in one turn of its loop: a part of a millisecond of work. An alternative of
// a token weighs 1.
constexpr std::size_t kMaxBatchWeight = 256;
constexpr std::size_t kUpdateWeight = 4;

// The end of the first frame's updates.
template <typename Iterator>
Iterator end_of_frame(Iterator first, Iterator end) {
  std::size_t weight = 0;
  Iterator last = first;
  do {
    weight += kUpdateWeight + last->top_logprobs.size();
  } while (++last != end && weight < kMaxBatchWeight);
  return last;
}

}  // namespace

// After its ReplicaFailed a replica says nothing more: the leader has taken everything away from
// it.
void ReplicaEngine::publish(StepId step, std::vector<wire::TokenUpdate> updates) {
  if (updates.empty() || failure_) {
    return;
  }
  for (wire::TokenUpdate& update : updates) {
    log_.updated(&update, clock_.now());
  }
  for (auto first = updates.begin(); first != updates.end();) {
    const auto last = end_of_frame(first, updates.end());
    sink_.send(
        wire::TokenBatch{step, {std::make_move_iterator(first), std::make_move_iterator(last)}});
    first = last;
  }
}

void ReplicaEngine::publish_one(wire::TokenUpdate update) {
  std::vector<wire::TokenUpdate> updates;
  updates.push_back(std::move(update));
  publish(group_.last_step(), std::move(updates));
}

void ReplicaEngine::send_prefix_changes() {
  if (failure_) {
    return;
  }
  PrefixCache::Changes changes = scheduler_.take_cache_changes();
  auto published = changes.published.begin();
  auto evicted = changes.evicted.begin();
  while (changes.cleared || published != changes.published.end() ||
         evicted != changes.evicted.end()) {
    wire::PrefixChanges message;
    message.cleared = std::exchange(changes.cleared, false);
    const auto take = [](auto& next, auto end, std::vector<std::uint64_t>& part) {
      while (next != end && part.size() < wire::kMaxPrefixChanges) {
        part.push_back(*next++);
      }
    };
    take(published, changes.published.end(), message.published);
    take(evicted, changes.evicted.end(), message.evicted);
    sink_.send(std::move(message));
  }
}

void ReplicaEngine::send_status() {
  periods_since_status_ = 0;
  if (failure_) {
    return;
  }
  sink_.send(status());
}

void ReplicaEngine::send_holding() {
  if (failure_) {
    return;
  }
  wire::ReplicaHolding holding;
  holding.effects = effects_;
  holding.after = holding_from_;
  holding.keys = scheduler_.keys_after(holding_from_, wire::kMaxHeldKeys);
  holding.to_end = holding.keys.size() < wire::kMaxHeldKeys;
  holding_from_ = holding.to_end ? wire::SequenceKey{} : holding.keys.back();
  sink_.send(std::move(holding));
}

// Sequences that are computed for the first time: the scheduler has them among those that wait until
// the step has ended.
std::uint32_t ReplicaEngine::admitted_by_step() const {
  if (!plan_) {
    return 0;
  }
  return static_cast<std::uint32_t>(
      std::count_if(plan_->rows.begin(), plan_->rows.end(), [this](const PlannedRow& row) {
        return row.admit && scheduler_.contains(row.sequence);
      }));
}

wire::ReplicaStatus ReplicaEngine::status() const {
  wire::ReplicaStatus status;
  status.epoch = group_.epoch();
  status.last_step = group_.last_step();
  status.recovering = group_.forming();
  status.searching = bisection_.active();
  const std::uint32_t begun = admitted_by_step();
  status.running = scheduler_.running() + begun;
  status.waiting = scheduler_.waiting() - begun;
  status.kv_blocks_free = scheduler_.blocks().free();
  status.kv_blocks_total = scheduler_.blocks().total();
  status.kv_blocks_cached = scheduler_.blocks().kept();
  status.prefix_tokens_asked = scheduler_.prefix_tokens_asked();
  status.prefix_tokens_found = scheduler_.prefix_tokens_found();
  status.preemptions = scheduler_.preemptions();
  status.step_budget_rows = std::min(budget_.prefill_rows({.decode_rows = 1}, 0),
                                     options_.scheduler.limits.max_num_batched_tokens);
  status.drains = group_.drains();
  status.stale_replies = group_.stale_replies();
  status.last_error = last_error_;
  status.ranks = group_.ranks();
  return status;
}

}  // namespace phalanx::engine
