// SPDX-License-Identifier: Apache-2.0
#include "step_planner.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "phalanx/step/prefix_hash.h"

#include "block_content.h"

namespace phalanx::engine {
namespace {

// Waiting sequences that are left alone in one plan because their beginning is being computed.
constexpr std::uint32_t kMaxHeldBack = 256;

}  // namespace

StepPlanner::StepPlanner(const SchedulerOptions& options,
                         const BlockPool& blocks,
                         const PrefixCache& cache,
                         const Sequences& running,
                         const Sequences& waiting,
                         const std::set<std::uint32_t>& free_slots,
                         const std::set<SequenceId>* only,
                         const StepBudget* step_budget)
    : options_(options),
      blocks_(blocks),
      cache_(cache),
      running_(running),
      waiting_(waiting),
      free_slots_(free_slots),
      only_(only),
      step_budget_(step_budget),
      budget_(options.limits.max_num_batched_tokens),
      available_(blocks.free()) {}

StepPlan StepPlanner::run() {
  keep_within_a_command();
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
    if (is_decoding == decoding && budget_ > 0 && may_run(id) && !victims_.contains(id)) {
      serve(sequence, decoding);
    }
  }
}

// How many rows of a prompt that goes on at `start` the step may still take.
std::uint32_t StepPlanner::prompt_rows(std::uint32_t start) const {
  return step_budget_ == nullptr ? budget_
                                 : std::min(budget_, step_budget_->prefill_rows(work_, start));
}

void StepPlanner::serve(const Sequence& sequence, bool decoding) {
  const std::uint32_t wanted =
      std::min(decoding ? budget_ : prompt_rows(sequence.computed), sequence.uncomputed());
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
  const auto row = std::find_if(
      drafts_.begin(), drafts_.end(), [&](const Draft& d) { return d.sequence == &victim; });
  if (row != drafts_.end()) {
    available_ += row->new_blocks;
    budget_ += row->count;
    work_ -= row->work();
    drafts_.erase(row);
  }
}

// Blocks that a running sequence is going to ask for soon: the rest of its prompt, and one to
// grow into. Admitting somebody into them would only preempt him again.
std::uint32_t StepPlanner::reserved_by(const Sequence& sequence) const {
  const std::uint32_t known = step::blocks_for(sequence.length());
  const std::uint32_t final = step::blocks_for(sequence.token_limit - 1);
  const auto held = static_cast<std::uint32_t>(sequence.blocks.size());
  return (known > held ? known - held : 0) + (final > known ? 1U : 0U);
}

// What those who are to be admitted find: blocks that are spoken for, and beginnings on their way.
void StepPlanner::note_running() {
  for (const auto& [id, sequence] : running_) {
    reserved_ += reserved_by(sequence);
    if (may_run(id)) {
      note_computing(sequence, sequence.published);
    }
  }
  std::uint32_t drafted_blocks = 0;
  for (const Draft& row : drafts_) {
    drafted_blocks += row.new_blocks;
  }
  reserved_ -= std::min(reserved_, drafted_blocks);
}

void StepPlanner::admit_waiting() {
  if (waiting_.empty()) {
    return;
  }
  note_running();
  full_ = only_ == nullptr;
  auto slot = free_slots_.begin();
  std::uint32_t overtaken = 0;
  std::uint32_t held_back = 0;
  for (const auto& [id, sequence] : waiting_) {
    if (budget_ == 0 || slot == free_slots_.end()) {
      full_ = false;
      return;
    }
    if (!may_run(id)) {
      continue;
    }
    if (awaits_prefix(sequence)) {
      full_ = false;
      if (++held_back > kMaxHeldBack) {
        return;
      }
      continue;
    }
    const Admission admission = try_to_admit(sequence, *slot);
    full_ = full_ && admission == Admission::kNoRoom;
    if (admission == Admission::kNoRows) {
      return;
    }
    if (admission == Admission::kAdmitted) {
      ++slot;
      continue;
    }
    if (sequence.passed >= options_.max_passes || ++overtaken > options_.max_passes) {
      return;
    }
  }
}

StepPlanner::Admission StepPlanner::try_to_admit(const Sequence& sequence, std::uint32_t slot) {
  if (!may_fit(sequence)) {
    return Admission::kNoRoom;
  }
  std::vector<BlockId> cached = cached_blocks(sequence);
  const std::uint32_t rows =
      prompt_rows(static_cast<std::uint32_t>(cached.size()) * step::kBlockTokens);
  if (rows == 0) {
    return Admission::kNoRows;
  }
  return admit(sequence, slot, std::move(cached), rows) ? Admission::kAdmitted : Admission::kNoRoom;
}

// Who would be alone is admitted wherever he fits at all.
bool StepPlanner::has_room(const Sequence& sequence, std::uint32_t taken) const {
  const bool alone = running_.empty() && drafts_.empty();
  // Those that are admitted leave room to grow into.
  const std::uint64_t admitted = options_.max_command_bytes / 8 * 7;
  const bool in_command = command_bytes_ + command_bytes(sequence) <= admitted;
  return available_ >= taken && (alone || (in_command && available_ >= taken + reserved_));
}

// False: it does not fit.
bool StepPlanner::admit(const Sequence& sequence,
                        std::uint32_t slot,
                        std::vector<BlockId> cached,
                        std::uint32_t rows) {
  const auto known = static_cast<std::uint32_t>(cached.size());
  if (!has_room(sequence, step::blocks_for(sequence.length()) - known + unpinned(cached))) {
    return false;
  }
  command_bytes_ += command_bytes(sequence);
  note_computing(sequence, known);
  Draft row;
  row.sequence = &sequence;
  row.slot = slot;
  row.start = known * step::kBlockTokens;
  row.count = std::min(rows, sequence.length() - row.start);
  row.cached = std::move(cached);
  row.admit = true;
  draft(std::move(row));
  reserved_ += reserved_by(sequence) - known - drafts_.back().new_blocks;
  return true;
}

// So many blocks of its beginning it may find in the cache: its last token is always computed,
// because its logits are wanted.
std::size_t StepPlanner::shareable_blocks(const Sequence& sequence) {
  const std::size_t most = (sequence.length() - 1) / step::kBlockTokens;
  return std::min(most, sequence.tokens.hashed_blocks());
}

std::vector<BlockId> StepPlanner::cached_blocks(const Sequence& sequence) const {
  std::vector<BlockId> blocks;
  for (std::size_t i = 0; i < shareable_blocks(sequence); ++i) {
    const std::optional<BlockId> found = cache_.find(content_of(sequence, i, blocks));
    if (!found) {
      break;
    }
    blocks.push_back(*found);
  }
  return blocks;
}

// Sharing such a block takes no free one.
bool StepPlanner::is_held(BlockId block) const {
  return blocks_.references(block) > 0 || pinned_.contains(block);
}

// Without a walk over its beginning, which may be long and stay in the queue for many steps. Who
// holds a block of the cache holds those before it, so a few are looked at; of hashes that collide
// the count of held blocks is too large, and admit() finds out.
bool StepPlanner::may_fit(const Sequence& sequence) const {
  const auto is_shared = [&](std::size_t block) {
    const std::uint64_t hash = sequence.tokens.hash(block);
    return cache_.contains(hash) && is_held(cache_.at(hash));
  };
  const auto held =
      static_cast<std::uint32_t>(step::known_prefix(shareable_blocks(sequence), is_shared));
  return has_room(sequence, step::blocks_for(sequence.length()) - held);
}

// Somebody is computing the block that would be the next one to share: it is cheaper to wait for it
// than to compute it a second time. A hash names a whole beginning, so who computes that block has
// its hash at the same place, and nothing of the prompts that run has to be entered anywhere.
bool StepPlanner::awaits_prefix(const Sequence& sequence) const {
  if (computing_.empty()) {
    return false;
  }
  const std::size_t most = shareable_blocks(sequence);
  const std::size_t next = step::known_prefix(
      most, [&](std::size_t block) { return cache_.contains(sequence.tokens.hash(block)); });
  return next < most &&
         std::any_of(computing_.begin(), computing_.end(), [&](const Computing& other) {
           const SequenceTokens& theirs = other.sequence->tokens;
           return other.from <= next && next < theirs.hashed_blocks() &&
                  theirs.hash(next) == sequence.tokens.hash(next);
         });
}

void StepPlanner::note_computing(const Sequence& sequence, std::size_t from) {
  if (sequence.publishes && from < sequence.tokens.hashed_blocks()) {
    computing_.push_back({&sequence, from});
  }
}

// How many free blocks sharing these takes.
std::uint32_t StepPlanner::unpinned(const std::vector<BlockId>& cached) const {
  return static_cast<std::uint32_t>(std::count_if(
      cached.begin(), cached.end(), [&](const BlockId block) { return !is_held(block); }));
}

void StepPlanner::draft(Draft row) {
  const std::uint32_t held = row.held_blocks();
  const std::uint32_t needed = step::blocks_for(row.start + row.count);
  row.new_blocks = needed > held ? needed - held : 0;
  available_ -= row.new_blocks + unpinned(row.cached);
  for (const BlockId block : row.cached) {
    if (blocks_.references(block) == 0) {
      pinned_.insert(block);
    }
  }
  budget_ -= row.count;
  work_ += row.work();
  drafts_.push_back(std::move(row));
}

StepPlan StepPlanner::finished() const {
  StepPlan plan;
  plan.work = work_;
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
