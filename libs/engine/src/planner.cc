// SPDX-License-Identifier: Apache-2.0
#include "planner.h"

#include <algorithm>

namespace phalanx::engine {

Planner::Planner(const SchedulerOptions& options,
                 const BlockPool& blocks,
                 const Sequences& running,
                 const Sequences& waiting,
                 const std::set<std::uint32_t>& free_slots,
                 const std::set<SequenceId>* only)
    : options_(options),
      blocks_(blocks),
      running_(running),
      waiting_(waiting),
      free_slots_(free_slots),
      only_(only),
      budget_(options.limits.max_num_batched_tokens),
      available_(blocks.free()) {}

StepPlan Planner::run() {
  // Decoding sequences first: a long prompt must not stop the streams that are flowing.
  serve_running(true);
  serve_running(false);
  if (victims_.empty()) {
    admit_waiting();
  }
  if (only_ != nullptr && drafts_.empty() && victims_.empty()) {
    preempt_others();
  }
  return finished();
}

// Those that may not run hold the slots or blocks of those that may.
void Planner::preempt_others() {
  const bool wanted = std::any_of(
      waiting_.begin(), waiting_.end(), [&](const auto& entry) { return may_run(entry.first); });
  for (const auto& [id, sequence] : running_) {
    if (wanted && !may_run(id)) {
      preempt(sequence);
    }
  }
}

void Planner::serve_running(bool decoding) {
  for (const auto& [id, sequence] : running_) {
    const bool is_decoding = sequence.uncomputed() == 1;
    if (is_decoding == decoding && budget_ > 0 && may_run(id) && !victims_.contains(id)) {
      serve(sequence);
    }
  }
}

void Planner::serve(const Sequence& sequence) {
  const std::uint32_t wanted = std::min(budget_, sequence.uncomputed());
  const auto held = static_cast<std::uint32_t>(sequence.blocks.size());
  const std::uint32_t reachable = (held + available_) * step::kBlockTokens - sequence.computed;
  if (reachable > 0 || make_room(sequence)) {
    const std::uint32_t now = (held + available_) * step::kBlockTokens - sequence.computed;
    draft(sequence, *sequence.slot, std::min(wanted, now), false);
  }
}

// True: a block is available now. False: the sequence gets one with the next step, or has itself
// been preempted.
bool Planner::make_room(const Sequence& sequence) {
  if (promised_ > 0) {
    --promised_;
    return false;
  }
  for (auto it = running_.rbegin(); it != running_.rend(); ++it) {
    if (victims_.contains(it->first)) {
      continue;
    }
    preempt(it->second);
    if (it->first == sequence.id) {
      return false;
    }
    if (available_ > 0) {
      return true;
    }
    if (promised_ > 0) {
      --promised_;
      return false;
    }
  }
  return false;
}

void Planner::preempt(const Sequence& victim) {
  victims_.insert(victim.id);
  for (const BlockId block : victim.blocks) {
    promised_ += blocks_.references(block) == 1 ? 1U : 0U;
  }
  const auto row = std::find_if(
      drafts_.begin(), drafts_.end(), [&](const Draft& d) { return d.sequence == &victim; });
  if (row != drafts_.end()) {
    available_ += row->new_blocks;
    budget_ += row->count;
    drafts_.erase(row);
  }
}

// Blocks that a running sequence is going to ask for soon: the rest of its prompt, and one to
// grow into. Admitting somebody into them would only preempt him again.
std::uint32_t Planner::reserved_by(const Sequence& sequence) const {
  const std::uint32_t known = step::blocks_for(sequence.length());
  const std::uint32_t final = step::blocks_for(sequence.token_limit - 1);
  const auto held = static_cast<std::uint32_t>(sequence.blocks.size());
  return (known > held ? known - held : 0) + (final > known ? 1U : 0U);
}

void Planner::admit_waiting() {
  std::uint32_t reserved = 0;
  std::uint32_t drafted_blocks = 0;
  for (const auto& [id, sequence] : running_) {
    reserved += reserved_by(sequence);
  }
  for (const Draft& row : drafts_) {
    drafted_blocks += row.new_blocks;
  }
  reserved -= std::min(reserved, drafted_blocks);

  auto slot = free_slots_.begin();
  std::uint32_t overtaken = 0;
  for (const auto& [id, sequence] : waiting_) {
    if (budget_ == 0 || slot == free_slots_.end()) {
      return;
    }
    if (!may_run(id)) {
      continue;
    }
    const std::uint32_t whole = step::blocks_for(sequence.length());
    const bool alone = running_.empty() && drafts_.empty();
    if (available_ < whole || (!alone && available_ < whole + reserved)) {
      if (sequence.passed >= options_.max_passes || ++overtaken > options_.max_passes) {
        return;
      }
      continue;
    }
    draft(sequence, *slot, std::min(budget_, sequence.uncomputed()), true);
    ++slot;
    reserved += reserved_by(sequence) - drafts_.back().new_blocks;
  }
}

void Planner::draft(const Sequence& sequence, std::uint32_t slot, std::uint32_t count, bool admit) {
  Draft row{&sequence, slot, count, 0, admit};
  const auto held = static_cast<std::uint32_t>(sequence.blocks.size());
  const std::uint32_t needed = step::blocks_for(sequence.computed + count);
  row.new_blocks = needed > held ? needed - held : 0;
  available_ -= row.new_blocks;
  budget_ -= count;
  drafts_.push_back(row);
}

StepPlan Planner::finished() const {
  StepPlan plan;
  std::uint32_t next_block = 0;
  for (const Draft& draft : drafts_) {
    PlannedRow row;
    row.sequence = draft.sequence->id;
    row.slot = draft.slot;
    row.admit = draft.admit;
    row.start = draft.sequence->computed;
    row.count = draft.count;
    row.sample = draft.count == draft.sequence->uncomputed();
    for (std::uint32_t i = 0; i < draft.new_blocks; ++i) {
      row.new_blocks.push_back(blocks_.peek(next_block++));
    }
    plan.tokens += row.count;
    plan.rows.push_back(std::move(row));
  }
  plan.preempted.assign(victims_.begin(), victims_.end());
  return plan;
}

}  // namespace phalanx::engine
