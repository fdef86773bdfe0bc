// SPDX-License-Identifier: Apache-2.0
// Who of those that wait is admitted by a step.
#include <algorithm>
#include <optional>
#include <utility>

#include "phalanx/step/prefix_hash.h"

#include "block_content.h"
#include "step_planner.h"

namespace phalanx::engine {
namespace {

// Waiting sequences that are left alone in one plan because their beginning is being computed.
constexpr std::uint32_t kMaxHeldBack = 256;

// Waiting sequences among which the shortest is looked for.
constexpr std::uint32_t kMaxLookedAt = 256;

}  // namespace

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
  if (waiting_.empty()) {
    return;
  }
  for (const auto& [id, sequence] : running_) {
    reserved_ += reserved_by(sequence);
    if (may_run(id)) {
      note_computing(sequence, sequence.published);
    }
  }
}

// Asks `admit` for those who wait, in order of arrival, and as long as they may be overtaken.
template <class Admit>
void StepPlanner::ask_waiting(const Admit& admit) {
  std::uint32_t overtaken = 0;
  std::uint32_t held_back = 0;
  for (const auto& [id, sequence] : waiting_) {
    if (&sequence == early_) {
      extend_early();
      continue;
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
    const Admission admission = admit(sequence);
    full_ = full_ && admission == Admission::kNoRoom;
    if (admission == Admission::kNoRows) {
      return;
    }
    if (admission == Admission::kNoRoom &&
        (sequence.passed >= options_.max_passes || ++overtaken > options_.max_passes)) {
      return;
    }
  }
}

void StepPlanner::admit_waiting() {
  full_ = only_ == nullptr && early_ == nullptr && !waiting_.empty();
  ask_waiting([&](const Sequence& sequence) {
    const bool takes_more = budget_ > 0 && next_slot_ != free_slots_.end();
    return takes_more ? try_to_admit(sequence, StepBudget::kUnlimited) : Admission::kNoRows;
  });
}

// Of the prompts that run or could be admitted now. Null: none, or it is the first one anyway. Who
// was overtaken often enough comes before all others: they are not to keep him out.
const Sequence* StepPlanner::shortest_behind_others() {
  const Sequence* first = nullptr;
  const Sequence* shortest = nullptr;
  std::uint32_t fewest = 0;
  const auto look_at = [&](const Sequence& sequence, std::uint32_t rows) {
    first = first == nullptr ? &sequence : first;
    if (shortest == nullptr || rows < fewest) {
      shortest = &sequence;
      fewest = rows;
    }
  };
  for (const auto& [id, sequence] : running_) {
    if (sequence.uncomputed() > 1 && may_run(id) && !victims_.contains(id)) {
      look_at(sequence, sequence.uncomputed());
    }
  }
  if (victims_.empty() && next_slot_ != free_slots_.end()) {
    std::uint32_t looked_at = 0;
    ask_waiting([&](const Sequence& sequence) {
      if (!may_fit(sequence)) {
        return Admission::kNoRoom;
      }
      const bool overdue = sequence.passed >= options_.max_passes;
      const std::size_t known = known_blocks(sequence) * step::kBlockTokens;
      look_at(sequence, overdue ? 0 : sequence.length() - static_cast<std::uint32_t>(known));
      return overdue || ++looked_at == kMaxLookedAt ? Admission::kNoRows : Admission::kAdmitted;
    });
  }
  return shortest == first ? nullptr : shortest;
}

// With at most `most` rows.
StepPlanner::Admission StepPlanner::try_to_admit(const Sequence& sequence, std::uint32_t most) {
  if (!may_fit(sequence)) {
    return Admission::kNoRoom;
  }
  std::vector<BlockId> cached = cached_blocks(sequence);
  const std::uint32_t rows =
      std::min(most, prompt_rows(static_cast<std::uint32_t>(cached.size()) * step::kBlockTokens));
  if (rows == 0) {
    return Admission::kNoRows;
  }
  return admit(sequence, std::move(cached), rows) ? Admission::kAdmitted : Admission::kNoRoom;
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
bool StepPlanner::admit(const Sequence& sequence, std::vector<BlockId> cached, std::uint32_t rows) {
  const auto known = static_cast<std::uint32_t>(cached.size());
  if (!has_room(sequence, step::blocks_for(sequence.length()) - known + unpinned(cached))) {
    return false;
  }
  command_bytes_ += command_bytes(sequence);
  note_computing(sequence, known);
  Draft row;
  row.sequence = &sequence;
  row.slot = *next_slot_++;
  row.start = known * step::kBlockTokens;
  row.count = std::min(rows, sequence.length() - row.start);
  row.cached = std::move(cached);
  row.admit = true;
  reserved_ += reserved_by(sequence) - known;
  draft(std::move(row));
  return true;
}

// So many blocks of its beginning it may find in the cache: its last token is always computed,
// because its logits are wanted.
std::size_t StepPlanner::shareable_blocks(const Sequence& sequence) {
  const std::size_t most = (sequence.length() - 1) / step::kBlockTokens;
  return std::min(most, sequence.tokens.hashed_blocks());
}

// How many blocks of its beginning are in the cache, by their hashes.
std::size_t StepPlanner::known_blocks(const Sequence& sequence) const {
  return step::known_prefix(shareable_blocks(sequence), [&](std::size_t block) {
    return cache_.contains(sequence.tokens.hash(block));
  });
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
  const std::size_t next = known_blocks(sequence);
  return next < shareable_blocks(sequence) &&
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

}  // namespace phalanx::engine
