// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "phalanx/engine/block_pool.h"
#include "phalanx/engine/prefix_cache.h"
#include "phalanx/engine/scheduler.h"
#include "phalanx/engine/sequence.h"
#include "phalanx/engine/step_budget.h"
#include "phalanx/engine/step_plan.h"

namespace phalanx::engine {

// Most of SchedulerOptions::max_command_bytes that one sequence takes.
[[nodiscard]] inline std::uint64_t command_bytes(const Sequence& sequence) {
  const std::uint64_t tokens = sequence.length();
  return kMaxSequenceBytes + (tokens + step::blocks_for(sequence.length()) + 1) * sizeof(TokenId);
}

// One pass over the state of a scheduler that fills the budget of a step. Reads only.
class StepPlanner {
 public:
  using Sequences = std::map<SequenceId, Sequence>;

  StepPlanner(const SchedulerOptions& options,
              const BlockPool& blocks,
              const PrefixCache& cache,
              const Sequences& running,
              const Sequences& waiting,
              const std::set<std::uint32_t>& free_slots,
              const std::set<SequenceId>* only,
              const StepBudget* step_budget,
              bool in_order);

  [[nodiscard]] StepPlan run();

 private:
  // A row before its blocks have numbers.
  struct Draft {
    const Sequence* sequence = nullptr;
    std::uint32_t slot = 0;
    std::uint32_t start = 0;
    std::uint32_t count = 0;
    std::vector<BlockId> cached;
    std::uint32_t new_blocks = 0;
    bool admit = false;
    bool decodes = false;

    [[nodiscard]] std::uint32_t held_blocks() const {
      return static_cast<std::uint32_t>(admit ? cached.size() : sequence->blocks.size());
    }
    [[nodiscard]] StepWork work() const {
      return decodes ? StepWork::decode(start) : StepWork::prefill(start, count);
    }
  };

  // A sequence that computes its blocks from `from` on, and publishes them.
  struct Computing {
    const Sequence* sequence = nullptr;
    std::size_t from = 0;
  };

  [[nodiscard]] bool may_run(SequenceId id) const {
    return only_ == nullptr || only_->contains(id);
  }
  void preempt_others();
  void keep_within_a_command();
  void serve_running(bool decoding);
  void serve_shortest();
  void extend_early();
  void serve(const Sequence& sequence, bool decoding, std::uint32_t most);
  [[nodiscard]] std::vector<Draft>::iterator draft_of(const Sequence& sequence);
  [[nodiscard]] std::uint32_t prompt_rows(std::uint32_t start) const;
  [[nodiscard]] bool make_room(const Sequence& sequence);
  void preempt(const Sequence& victim);
  void note_running();
  enum class Admission { kAdmitted, kNoRoom, kNoRows };
  template <class Admit>
  void ask_waiting(const Admit& admit);
  void admit_waiting();
  [[nodiscard]] const Sequence* shortest_behind_others();
  [[nodiscard]] Admission try_to_admit(const Sequence& sequence, std::uint32_t most);
  [[nodiscard]] bool admit(const Sequence& sequence,
                           std::vector<BlockId> cached,
                           std::uint32_t rows);
  [[nodiscard]] static std::size_t shareable_blocks(const Sequence& sequence);
  [[nodiscard]] std::size_t known_blocks(const Sequence& sequence) const;
  [[nodiscard]] std::vector<BlockId> cached_blocks(const Sequence& sequence) const;
  [[nodiscard]] bool is_held(BlockId block) const;
  [[nodiscard]] bool may_fit(const Sequence& sequence) const;
  [[nodiscard]] bool has_room(const Sequence& sequence, std::uint32_t taken) const;
  [[nodiscard]] bool awaits_prefix(const Sequence& sequence) const;
  void note_computing(const Sequence& sequence, std::size_t from);
  [[nodiscard]] std::uint32_t unpinned(const std::vector<BlockId>& cached) const;
  [[nodiscard]] std::uint32_t reserved_by(const Sequence& sequence) const;
  void draft(Draft row);
  void take_blocks(std::uint32_t count);
  [[nodiscard]] StepPlan finished() const;

  const SchedulerOptions& options_;
  const BlockPool& blocks_;
  const PrefixCache& cache_;
  const Sequences& running_;
  const Sequences& waiting_;
  const std::set<std::uint32_t>& free_slots_;
  const std::set<SequenceId>* only_;
  const StepBudget* step_budget_;
  bool in_order_;  // nobody is served before his turn
  std::uint32_t budget_;
  StepWork work_;            // of the rows so far
  std::uint32_t available_;  // free blocks that no row has taken yet
  std::set<std::uint32_t>::const_iterator next_slot_;
  const Sequence* early_ = nullptr;                 // was served before its turn …
  std::uint32_t early_rows_ = 0;                    // … with so many rows
  std::optional<std::uint32_t> rows_before_early_;  // of prompts, once its turn has come
  std::uint32_t promised_ = 0;                      // blocks of victims, for the next step
  std::uint32_t reserved_ = 0;        // blocks that those who run are going to ask for
  std::uint64_t command_bytes_ = 0;   // of all that run, and of those that are admitted
  std::set<BlockId> pinned_;          // kept blocks that a row is going to share
  std::vector<Computing> computing_;  // those who are about to publish blocks
  bool full_ = false;                 // whoever waits was looked at, and there was no room
  std::vector<Draft> drafts_;
  std::set<SequenceId> victims_;
};

}  // namespace phalanx::engine
