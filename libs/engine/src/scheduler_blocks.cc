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
// faster, what follows hangs on the block of that one.
void Scheduler::publish(Sequence& sequence) {
  if (!options_.prefix_cache || !sequence.publishes) {
    return;
  }
  sequence.tokens.hash_blocks(options_.prefix_key, sequence.cache_salt);
  for (std::uint32_t i = sequence.published; i < sequence.computed / step::kBlockTokens; ++i) {
    const PrefixCache::Content content = content_of(sequence, i, sequence.blocks);
    if (!cache_.publish(sequence.blocks[i], content) && !adopt(sequence, i, content)) {
      sequence.publishes = false;
      return;
    }
    sequence.published = i + 1;
  }
}

// Holds the block that was published before block `index` of the sequence with the same content.
// False: not so, or it costs too much memory. One such block is usual, for the last token of a
// prompt is always computed and its block with it; more come of answers that are given a second
// time, and hold nothing new. Who needs all blocks there are for itself would be preempted for it,
// again and again.
bool Scheduler::adopt(Sequence& sequence,
                      std::uint32_t index,
                      const PrefixCache::Content& content) {
  const bool fits = step::blocks_for(sequence.token_limit - 1) < blocks_.limit();
  const std::optional<BlockId> known = cache_.find(content);
  if (sequence.twin || !known || !fits) {
    return false;
  }
  blocks_.share(*known);
  sequence.twin = TwinBlock{index, *known};
  return true;
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
  for (std::size_t i = sequence.blocks.size(); i-- > 0;) {
    blocks_.release(sequence.blocks[i], cache_.contains(sequence.blocks[i]));
    if (sequence.twin && sequence.twin->index == i) {
      blocks_.release(sequence.twin->block, cache_.contains(sequence.twin->block));
    }
  }
  sequence.blocks.clear();
  sequence.twin.reset();
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
