// SPDX-License-Identifier: Apache-2.0
#include "step_planner.h"

#include <algorithm>
#include <utility>

namespace phalanx::engine {

StepPlanner::StepPlanner(const SchedulerOptions& options,
                         const BlockPool& blocks,
                         const PrefixCache& cache,
                         const Sequences& running,
                         const Sequences& waiting,
                         const std::set<std::uint32_t>& free_slots,
                         const std::set<SequenceId>* only,
                         const StepBudget* step_budget,
                         bool in_order)
    : options_(options),
      blocks_(blocks),
      cache_(cache),
      running_(running),
      waiting_(waiting),
      free_slots_(free_slots),
      only_(only),
      step_budget_(step_budget),
      in_order_(in_order),
      budget_(options.limits.max_num_batched_tokens),
      available_(blocks.free()),
      next_slot_(free_slots.begin()) {}

StepPlan StepPlanner::run() {
  keep_within_a_command();
  note_running();
  // Decoding sequences first: a long prompt must not stop the streams that are flowing.
  serve_running(true);
  serve_shortest();
  serve_running(false);
  if (victims_.empty()) {
    admit_waiting();
  }
  extend_early();
  if (only_ != nullptr && drafts_.empty() && victims_.empty()) {
    preempt_others();
  }
  return finished();
}

void StepPlanner::keep_within_a_command() {
  for (const auto& [id, sequence] : running_) {
    command_bytes_ += command_bytes(sequence);
  }
  for (auto it = running_.rbegin();
       it != running_.rend() && command_bytes_ > options_.max_command_bytes;
       ++it) {
    preempt(it->second);
    command_bytes_ -= command_bytes(it->second);
  }
}

// Those that may not run hold the slots or blocks of those that may.
void StepPlanner::preempt_others() {
  const bool wanted = std::any_of(
      waiting_.begin(), waiting_.end(), [&](const auto& entry) { return may_run(entry.first); });
  for (const auto& [id, sequence] : running_) {
    if (wanted && !may_run(id)) {
      preempt(sequence);
    }
  }
}

void StepPlanner::serve_running(bool decoding) {
  for (const auto& [id, sequence] : running_) {
    const bool is_decoding = sequence.uncomputed() == 1;
    if (is_decoding != decoding || budget_ == 0 || !may_run(id) || victims_.contains(id)) {
      continue;
    }
    if (&sequence == early_) {
      extend_early();
    } else {
      serve(sequence, decoding, StepBudget::kUnlimited);
    }
  }
}

// Gives a block to the prompt that the fewest rows complete: otherwise a short one would wait for
// all of each long one before it.
void StepPlanner::serve_shortest() {
  const Sequence* shortest = in_order_ ? nullptr : shortest_behind_others();
  if (shortest == nullptr) {
    return;
  }
  if (shortest->slot) {
    serve(*shortest, false, StepBudget::kBlockRows);
  } else {
    static_cast<void>(try_to_admit(*shortest, StepBudget::kBlockRows));
  }
  if (const auto row = draft_of(*shortest); row != drafts_.end()) {
    early_ = shortest;
    early_rows_ = row->count;
  }
}

// At its turn, or where its turn does not come, it gets what those before it have left.
void StepPlanner::extend_early() {
  const auto row = early_ == nullptr ? drafts_.end() : draft_of(*early_);
  if (row == drafts_.end() || rows_before_early_) {
    return;
  }
  rows_before_early_ = work_.prefill_rows - early_rows_;
  const std::uint32_t end = row->start + row->count;
  const std::uint32_t held = row->held_blocks() + row->new_blocks;
  const std::uint64_t reachable = (std::uint64_t{held} + available_) * step::kBlockTokens - end;
  const auto more = static_cast<std::uint32_t>(
      std::min<std::uint64_t>({prompt_rows(end), early_->length() - end, reachable}));
  const std::uint32_t new_blocks = step::blocks_for(end + more) - held;
  take_blocks(new_blocks);
  row->new_blocks += new_blocks;
  row->count += more;
  budget_ -= more;
  work_ += StepWork::prefill(end, more);
}

std::vector<StepPlanner::Draft>::iterator StepPlanner::draft_of(const Sequence& sequence) {
  return std::ranges::find(drafts_, &sequence, &Draft::sequence);
}

// How many rows of a prompt that goes on at `start` the step may still take.
std::uint32_t StepPlanner::prompt_rows(std::uint32_t start) const {
  return step_budget_ == nullptr ? budget_
                                 : std::min(budget_, step_budget_->prefill_rows(work_, start));
}

// At most `most` rows of it.
void StepPlanner::serve(const Sequence& sequence, bool decoding, std::uint32_t most) {
  const std::uint32_t rows = decoding ? budget_ : prompt_rows(sequence.computed);
  const std::uint32_t wanted = std::min({rows, sequence.uncomputed(), most});
  if (wanted == 0) {
    return;
  }
  const auto reachable = [&] {
    const std::uint64_t blocks = sequence.blocks.size() + std::uint64_t{available_};
    return blocks * step::kBlockTokens - sequence.computed;
  };
  if (reachable() > 0 || make_room(sequence)) {
    Draft row;
    row.sequence = &sequence;
    row.slot = *sequence.slot;
    row.start = sequence.computed;
    row.count = static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, reachable()));
    row.decodes = decoding;
    draft(std::move(row));
  }
}

// True: a block is available now. False: the sequence gets one with the next step, or has itself
// been preempted.
bool StepPlanner::make_room(const Sequence& sequence) {
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

void StepPlanner::preempt(const Sequence& victim) {
  victims_.insert(victim.id);
  for (const BlockId block : victim.blocks) {
    promised_ += blocks_.references(block) == 1 ? 1U : 0U;
  }
  if (victim.twin && blocks_.references(victim.twin->block) == 1) {
    ++promised_;
  }
  if (const auto row = draft_of(victim); row != drafts_.end()) {
    available_ += row->new_blocks;
    budget_ += row->count;
    work_ -= row->work();
    drafts_.erase(row);
  }
}

void StepPlanner::draft(Draft row) {
  const std::uint32_t held = row.held_blocks();
  const std::uint32_t needed = step::blocks_for(row.start + row.count);
  row.new_blocks = needed > held ? needed - held : 0;
  take_blocks(row.new_blocks);
  available_ -= unpinned(row.cached);
  for (const BlockId block : row.cached) {
    if (blocks_.references(block) == 0) {
      pinned_.insert(block);
    }
  }
  budget_ -= row.count;
  work_ += row.work();
  drafts_.push_back(std::move(row));
}

// Free ones, of which each running sequence had some reserved.
void StepPlanner::take_blocks(std::uint32_t count) {
  available_ -= count;
  reserved_ -= std::min(reserved_, count);
}

StepPlan StepPlanner::finished() const {
  StepPlan plan;
  plan.work = work_;
  plan.favours = rows_before_early_ && *rows_before_early_ < early_rows_;
  plan.full = full_;
  std::uint32_t new_blocks = 0;
  for (const Draft& draft : drafts_) {
    new_blocks += draft.new_blocks;
  }
  const std::vector<BlockId> blocks = blocks_.peek(new_blocks, pinned_);
  auto next_block = blocks.begin();
  for (const Draft& draft : drafts_) {
    PlannedRow row;
    row.sequence = draft.sequence->id;
    row.slot = draft.slot;
    row.admit = draft.admit;
    row.start = draft.start;
    row.count = draft.count;
    row.sample = draft.start + draft.count == draft.sequence->length();
    row.held_blocks = draft.held_blocks();
    row.cached = draft.cached;
    row.new_blocks.assign(next_block, next_block + draft.new_blocks);
    next_block += draft.new_blocks;
    plan.tokens += row.count;
    plan.rows.push_back(std::move(row));
  }
  plan.preempted.assign(victims_.begin(), victims_.end());
  return plan;
}

}  // namespace phalanx::engine
