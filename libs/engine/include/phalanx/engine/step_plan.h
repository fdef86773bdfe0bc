// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "phalanx/engine/sequence.h"
#include "phalanx/engine/step_budget.h"

namespace phalanx::engine {

// One row range of a planned step.
struct PlannedRow {
  SequenceId sequence;
  std::uint32_t slot = 0;
  bool admit = false;  // the sequence is waiting now, and takes the slot with this step
  std::uint32_t start = 0;
  std::uint32_t count = 0;
  bool sample = false;
  std::uint32_t held_blocks = 0;    // of its block table before this step, cached ones included
  std::vector<BlockId> cached;      // full blocks that an admitted sequence begins with
  std::vector<BlockId> new_blocks;  // appended to its block table by this step
  friend bool operator==(const PlannedRow&, const PlannedRow&) = default;
};

// The changes that one step makes to a scheduler, as data. Nothing of it is true before the step is
// confirmed, so that a fault needs no undoing: the plan is run again, or dropped.
struct StepPlan {
  std::vector<PlannedRow> rows;
  std::vector<SequenceId> preempted;  // lose slot and blocks, and wait again
  std::vector<std::uint32_t> freed;   // slots that are free, and the ranks are told so by this step
  std::uint32_t tokens = 0;           // sum of the rows' counts
  StepWork work;                      // what the rows cost
  bool favours = false;               // a prompt gets more rows than all those before its turn
  bool full = false;                  // whoever waits has found no room, and nothing else is amiss
  std::uint64_t room_changes = 0;     // of the scheduler, when it was planned

  // One more than the highest number among the new blocks; 0 without any.
  [[nodiscard]] std::uint32_t blocks_end() const;

  // A plan without rows needs no step of the ranks: it is confirmed at once.
  [[nodiscard]] bool needs_step() const { return !rows.empty(); }
  [[nodiscard]] bool changes_anything() const { return !rows.empty() || !preempted.empty(); }
  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

inline std::uint32_t StepPlan::blocks_end() const {
  std::uint32_t end = 0;
  for (const PlannedRow& row : rows) {
    for (const BlockId block : row.new_blocks) {
      end = std::max(end, block.value() + 1);
    }
  }
  return end;
}

}  // namespace phalanx::engine
