// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "phalanx/base/result.h"
#include "phalanx/engine/block_pool.h"
#include "phalanx/engine/prefix_cache.h"
#include "phalanx/engine/scheduler_options.h"
#include "phalanx/engine/sequence.h"
#include "phalanx/engine/step_plan.h"
#include "phalanx/step/limits.h"
#include "phalanx/step/sample_result.h"
#include "phalanx/wire/rank_messages.h"
#include "phalanx/wire/replica_messages.h"

namespace phalanx::engine {

// Continuous batching over paged KV, as a value: plan() is a pure function of the state, and only
// confirm() applies a plan. A fault therefore rolls back by doing nothing (S8). begin() only lets
// the prefix cache forget what the step may overwrite.
//
// A step has one budget of tokens. Sequences that decode come first, then one block of the prompt
// that the fewest rows complete, then prompts in order of arrival, cut into chunks of what is left
// and what StepBudget allows. Where prompts before it get less than that block, the next step has
// none. A sequence is admitted when free blocks cover its tokens so far and what running prompts
// still need; younger ones that are shorter or fit pass it, at most max_passes times. When
// a running sequence needs a block and none is free, the youngest running one is preempted: it
// waits again at its place of arrival, and prompt *and* produced tokens are computed anew. Its
// blocks serve the next step, not this one, whose failure must find them untouched.
//
// With the prefix cache a block that a confirmed step has filled is published, and kept when its
// sequence leaves until the pool has no other. A sequence is admitted with the published blocks of
// its beginning and computes the rest, its last token at least. KV does not depend on how it was
// computed, so no token does. While somebody computes the block that a waiting sequence would share
// next, that sequence waits, and loses no place.
//
// Between plan() and the confirm() or abandonment of that plan only submit(), cancel(), begin(),
// plan_after() and a raised limit_blocks() may come; none touches what the plan names. A plan of
// plan_after() is confirmed after the one before it, or abandoned with it.
//
// Threads: one.
class Scheduler {
 public:
  // Requires validate(options).
  explicit Scheduler(const SchedulerOptions& options);

  // Queues a sequence. Refuses, naming both numbers: kInvalidArgument for one that could never run
  // (empty or over-long prompt, token outside the vocabulary, max_tokens of 0, more KV than there
  // is), kResourceExhausted when the queue is full. Requires that no sequence of that key is here.
  [[nodiscard]] Result<SequenceId> submit(const wire::Submit& submit);

  // Marks a sequence; the next sweep() or confirm() removes it. False: no such key.
  [[nodiscard]] bool cancel(const wire::SequenceKey& key);

  [[nodiscard]] bool contains(const wire::SequenceKey& key) const { return keys_.contains(key); }
  [[nodiscard]] bool contains(SequenceId id) const {
    return running_.contains(id) || waiting_.contains(id);
  }
  [[nodiscard]] bool empty() const { return keys_.empty(); }

  // The keys beyond `after` of sequences that are not about to leave, ascending, at most `limit`.
  [[nodiscard]] std::vector<wire::SequenceKey> keys_after(const wire::SequenceKey& after,
                                                          std::size_t limit) const;

  // Removes what is cancelled or was complete when it was submitted, with a final update each.
  [[nodiscard]] std::vector<wire::TokenUpdate> sweep();

  // The next step. A plan that changes nothing means that there is nothing to do. With `only`,
  // nobody else runs; running ones keep their place unless it is needed. Without `budget` no time
  // limits it.
  [[nodiscard]] StepPlan plan(const std::set<SequenceId>* only = nullptr,
                              const StepBudget* budget = nullptr) const;

  // The step to run after `plan`, which has begun and is not confirmed: each of its sequences goes
  // on with the token that `plan` draws. Null where that is not what plan() would answer then, as
  // far as can be known now: a prompt goes on, a sequence could be admitted, or a block would be
  // missing. A sequence that `plan` brings to its end, or that is cancelled, is in vain there.
  [[nodiscard]] std::optional<StepPlan> plan_after(const StepPlan& plan) const;

  // To be called before the command of a plan goes out, which may run, or half of it, whether it is
  // confirmed or not: what the prefix cache has in the blocks that it writes is gone. Changes
  // nothing else; the state plans as it did.
  void begin(const StepPlan& plan);

  // The parts of a rank command that the plan determines: attach, detach and items.
  [[nodiscard]] wire::RankCommand command(const StepPlan& plan) const;

  // Applies `plan`, which has begun. `samples[i]` belongs to rows[i] and is read where that row
  // samples; a sequence whose sample is a fault ends with it. Rows of sequences that have ended
  // since they were planned are passed over. Answers one update for each sequence whose remainders
  // changed; a final one has a finish reason and remainders of zero.
  [[nodiscard]] std::vector<wire::TokenUpdate> confirm(const StepPlan& plan,
                                                       std::span<const step::SampleResult> samples);

  // Only blocks below `limit` are used from the next plan on (BlockPool::set_limit): the memory for
  // the others is not there. Sequences wait and are preempted as in a smaller pool.
  void limit_blocks(std::uint32_t limit);

  // Blocks that must be free for the oldest waiting sequence to run alone; 0 when none waits.
  [[nodiscard]] std::uint32_t first_waiting_blocks() const;

  // The oldest waiting sequence, of those in `only` if it is given.
  [[nodiscard]] std::optional<SequenceId> first_waiting(
      const std::set<SequenceId>* only = nullptr) const;

  // No KV can be trusted any more: every sequence waits again with nothing computed, and no block
  // counts as touched. Answers the new remainders of those that lost something.
  [[nodiscard]] std::vector<wire::TokenUpdate> drop_kv();

  // The running sequences for kAttach. The ranks then know these and no others.
  [[nodiscard]] std::vector<step::SequenceAttach> attach_table();

  // Ends the sequence, which is here, with `error`; not between plan() and confirm().
  [[nodiscard]] wire::TokenUpdate fail(SequenceId id, const Error& error);

  // Ends every sequence with `error`, one final update each.
  [[nodiscard]] std::vector<wire::TokenUpdate> fail_all(const Error& error);

  // A free block and slot for the self-test of a replica that serves nothing yet; the slot is
  // detached by the next step.
  struct Probe {
    SequenceId sequence;
    std::uint32_t slot = 0;
    BlockId block;
  };
  [[nodiscard]] Probe probe();

  [[nodiscard]] std::uint32_t running() const {
    return static_cast<std::uint32_t>(running_.size());
  }
  [[nodiscard]] std::uint32_t waiting() const {
    return static_cast<std::uint32_t>(waiting_.size());
  }
  [[nodiscard]] std::uint64_t preemptions() const { return preemptions_; }
  [[nodiscard]] const BlockPool& blocks() const { return blocks_; }

  // Prompt tokens of the sequences admitted so far, and how many of them were in the prefix cache.
  [[nodiscard]] std::uint64_t prefix_tokens_asked() const { return prefix_tokens_asked_; }
  [[nodiscard]] std::uint64_t prefix_tokens_found() const { return prefix_tokens_found_; }
  [[nodiscard]] const PrefixCache& cache() const { return cache_; }
  [[nodiscard]] PrefixCache::Changes take_cache_changes() { return cache_.take_changes(); }
  [[nodiscard]] const SchedulerOptions& options() const { return options_; }

  [[nodiscard]] const wire::SequenceKey& key_of(SequenceId id) const { return at(id).key; }

  // For tests and dumps: the sequence of this key, or null.
  [[nodiscard]] const Sequence* find(const wire::SequenceKey& key) const;

  // Equal states plan and confirm alike.
  friend bool operator==(const Scheduler& a, const Scheduler& b);

 private:
  using Sequences = std::map<SequenceId, Sequence>;

  [[nodiscard]] static bool stops_at_end(const Sequence& sequence);
  [[nodiscard]] static wire::TokenUpdate remainders(const Sequence& sequence);
  [[nodiscard]] static step::SequenceAttach attach_record(const Sequence& sequence,
                                                          std::uint32_t slot,
                                                          const std::vector<BlockId>& blocks);
  [[nodiscard]] Sequence& at(SequenceId id);
  [[nodiscard]] const Sequence& at(SequenceId id) const;
  [[nodiscard]] bool only_decodes(const StepPlan& plan) const;
  [[nodiscard]] bool draws_last(const PlannedRow& row) const;
  [[nodiscard]] bool number_blocks(const StepPlan& plan, StepPlan* next) const;
  void apply_row(const PlannedRow& row);
  void begin_with(Sequence& sequence, const std::vector<BlockId>& cached);
  void publish(Sequence& sequence);
  bool adopt(Sequence& sequence, std::uint32_t index, const PrefixCache::Content& content);
  void give_up(BlockId block);
  void count_passes(const StepPlan& plan);
  [[nodiscard]] wire::TokenUpdate settle_row(const PlannedRow& row,
                                             const step::SampleResult& sample);
  [[nodiscard]] wire::TokenUpdate remove(SequenceId id, step::FinishReason reason);
  void release(Sequence& sequence);
  void to_waiting(SequenceId id);

  SchedulerOptions options_;
  BlockPool blocks_;
  PrefixCache cache_;
  Sequences running_;
  Sequences waiting_;
  std::map<wire::SequenceKey, SequenceId> keys_;
  std::set<std::uint32_t> free_slots_;
  std::set<std::uint32_t> stale_slots_;  // free here, still in the tables of the ranks
  std::vector<SequenceId> leaving_;      // cancelled or complete, until the next sweep
  std::uint64_t next_sequence_ = 1;
  bool in_order_ = false;           // the next step with prompts serves nobody before his turn
  std::uint64_t room_changes_ = 0;  // arrivals, ends, limits: what may let in somebody who waits
  std::uint64_t preemptions_ = 0;
  std::uint64_t prefix_tokens_asked_ = 0;
  std::uint64_t prefix_tokens_found_ = 0;
};

}  // namespace phalanx::engine
