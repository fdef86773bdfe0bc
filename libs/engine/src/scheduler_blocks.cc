// SPDX-License-Identifier: Apache-2.0
// Who has which KV block: sequences, the prefix cache, or nobody.
#include <algorithm>
#include <utility>

#include "phalanx/base/check.h"
#include "phalanx/engine/scheduler.h"

#include "block_content.h"

namespace phalanx::engine {

void Scheduler::apply_row(const PlannedRow& row) {
  if (row.admit) {
    auto node = waiting_.extract(row.sequence);
    PHALANX_CHECK(!node.empty() && free_slots_.erase(row.slot) == 1, "the plan is not of now");
    node.mapped().slot = row.slot;
    node.mapped().passed = 0;
    running_.insert(std::move(node));
    begin_with(at(row.sequence), row.cached);
  }
  Sequence& sequence = at(row.sequence);
  PHALANX_CHECK(sequence.computed == row.start, "the plan is not of now");
  for (const BlockId block : row.new_blocks) {
    blocks_.take(block);
    sequence.blocks.push_back(block);
  }
  const std::uint32_t end = row.start + row.count;
  for (std::uint32_t i = row.start / step::kBlockTokens; i < step::blocks_for(end); ++i) {
    PHALANX_CHECK(blocks_.references(sequence.blocks[i]) == 1, "a shared block was written");
  }
  sequence.computed = end;
  publish(sequence);
}

// Gives an admitted sequence the blocks that it shares.
void Scheduler::begin_with(Sequence& sequence, const std::vector<BlockId>& cached) {
  sequence.blocks = cached;
  sequence.published = static_cast<std::uint32_t>(cached.size());
  sequence.computed = sequence.published * step::kBlockTokens;
  if (!sequence.cached_tokens) {
    sequence.cached_tokens = std::min(sequence.computed, sequence.prompt_tokens);
    prefix_tokens_asked_ += sequence.prompt_tokens;
    prefix_tokens_found_ += *sequence.cached_tokens;
  }
}

// Enters the blocks that are full and not in the prefix cache yet. Where another sequence was
// faster, what follows would hang on a block that this one does not hold: it stays private.
void Scheduler::publish(Sequence& sequence) {
  if (!options_.prefix_cache || !sequence.publishes) {
    return;
  }
  sequence.tokens.hash_blocks(options_.prefix_key, sequence.cache_salt);
  for (std::uint32_t i = sequence.published; i < sequence.computed / step::kBlockTokens; ++i) {
    if (!cache_.publish(sequence.blocks[i], content_of(sequence, i, sequence.blocks))) {
      sequence.publishes = false;
      return;
    }
    sequence.published = i + 1;
  }
}

void Scheduler::begin(const StepPlan& plan) {
  for (const PlannedRow& row : plan.rows) {
    for (const BlockId block : row.new_blocks) {
      give_up(block);
    }
  }
}

// The next step writes this free block.
void Scheduler::give_up(BlockId block) {
  if (cache_.contains(block)) {
    cache_.evict(block);
    blocks_.give_up(block);
  }
}

void Scheduler::release(Sequence& sequence) {
  // From the last: the pool hands out what came back last, so a sequence gets its blocks in order;
  // and of those that it keeps, what came back first, so a block is evicted before its parent.
  for (auto block = sequence.blocks.rbegin(); block != sequence.blocks.rend(); ++block) {
    blocks_.release(*block, cache_.contains(*block));
  }
  sequence.blocks.clear();
  sequence.computed = 0;
  sequence.published = 0;
  sequence.publishes = true;
  if (sequence.slot) {
    free_slots_.insert(*sequence.slot);
    stale_slots_.insert(*sequence.slot);
    sequence.slot.reset();
  }
}

void Scheduler::to_waiting(SequenceId id) {
  auto node = running_.extract(id);
  release(node.mapped());
  waiting_.insert(std::move(node));
}

std::vector<wire::TokenUpdate> Scheduler::drop_kv() {
  cache_.clear();
  std::vector<wire::TokenUpdate> updates;
  updates.reserve(running_.size());
  while (!running_.empty()) {
    const SequenceId id = running_.begin()->first;
    to_waiting(id);
    updates.push_back(remainders(at(id)));
  }
  blocks_.untouch();
  return updates;
}

void Scheduler::limit_blocks(std::uint32_t limit) {
  blocks_.set_limit(limit);
  ++room_changes_;
}

Scheduler::Probe Scheduler::probe() {
  PHALANX_CHECK(running_.empty(), "a self-test belongs to a replica that serves nothing");
  const BlockId block = blocks_.peek(1).front();
  give_up(block);
  const Probe probe{SequenceId(next_sequence_++), *free_slots_.begin(), block};
  stale_slots_.insert(probe.slot);
  return probe;
}

}  // namespace phalanx::engine
