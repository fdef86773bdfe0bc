// SPDX-License-Identifier: Apache-2.0
// The step after one that is still running.
#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "phalanx/engine/scheduler.h"

#include "step_planner.h"

namespace phalanx::engine {
namespace {

// The row of a sequence that goes on with the token which `before` draws. Its blocks have no
// numbers yet.
PlannedRow row_after(const PlannedRow& before) {
  PlannedRow row;
  row.sequence = before.sequence;
  row.slot = before.slot;
  row.start = before.start + before.count;
  row.count = 1;
  row.sample = true;
  row.held_blocks = before.held_blocks + static_cast<std::uint32_t>(before.new_blocks.size());
  row.new_blocks.resize(step::blocks_for(row.start + 1) - row.held_blocks);
  return row;
}

}  // namespace

// Whether the next step is this one again, one token on: each sequence that runs has a row in it
// that draws, and nobody could come in between. That takes a free slot, or an end that frees one,
// and memory that is not full: sequences that decode make no room. An end that is not foreseen is
// seen a step later.
bool Scheduler::only_decodes(const StepPlan& plan) const {
  const auto admitted = static_cast<std::size_t>(std::count_if(
      plan.rows.begin(), plan.rows.end(), [](const PlannedRow& row) { return row.admit; }));
  const bool everyone_has_a_row = running_.size() + admitted == plan.rows.size();
  const bool some_wait = waiting_.size() > admitted;
  const bool is_full = plan.full && plan.room_changes == room_changes_;
  const bool some_may_come_in = some_wait && !is_full && free_slots_.size() > admitted;
  if (!plan.preempted.empty() || !everyone_has_a_row || some_may_come_in) {
    return false;
  }
  return std::all_of(plan.rows.begin(), plan.rows.end(), [&](const PlannedRow& row) {
    const bool frees_a_slot = contains(row.sequence) && draws_last(row);
    return row.sample && contains(row.sequence) && !(some_wait && frees_a_slot);
  });
}

// Whatever the token is.
bool Scheduler::draws_last(const PlannedRow& row) const {
  return at(row.sequence).to_generate() <= 1;
}

std::optional<StepPlan> Scheduler::plan_after(const StepPlan& plan) const {
  if (!only_decodes(plan)) {
    return std::nullopt;
  }
  StepPlan next;
  next.full = plan.full;
  next.room_changes = plan.room_changes;
  std::uint64_t bytes = 0;
  for (const PlannedRow& before : plan.rows) {
    bytes += command_bytes(at(before.sequence));
    if (!draws_last(before) && !at(before.sequence).cancelled) {
      next.rows.push_back(row_after(before));
      next.work += StepWork::decode(next.rows.back().start);
      ++next.tokens;
    }
  }
  // Sequences grow by steps ahead, too; plan() finds out what their size means.
  if (next.rows.empty() || bytes > options_.max_command_bytes || !number_blocks(plan, &next)) {
    return std::nullopt;
  }
  return next;
}

// Gives the new blocks of `next` numbers that `plan` does not use. False: there are not enough.
bool Scheduler::number_blocks(const StepPlan& plan, StepPlan* next) const {
  std::set<BlockId> taken;
  std::set<BlockId> shared;
  for (const PlannedRow& row : plan.rows) {
    taken.insert(row.new_blocks.begin(), row.new_blocks.end());
    std::copy_if(row.cached.begin(),
                 row.cached.end(),
                 std::inserter(shared, shared.end()),
                 [&](BlockId block) { return blocks_.references(block) == 0; });
  }
  std::size_t count = taken.size();
  for (const PlannedRow& row : next->rows) {
    count += row.new_blocks.size();
  }
  if (count + shared.size() > blocks_.free()) {
    return false;
  }
  std::vector<BlockId> free = blocks_.peek(static_cast<std::uint32_t>(count), shared);
  std::erase_if(free, [&](BlockId block) { return taken.contains(block); });
  auto number = free.begin();
  for (PlannedRow& row : next->rows) {
    for (BlockId& block : row.new_blocks) {
      block = *number++;
    }
  }
  return true;
}

}  // namespace phalanx::engine
