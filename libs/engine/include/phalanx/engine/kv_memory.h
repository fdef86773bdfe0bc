// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>

#include "phalanx/base/clock.h"
#include "phalanx/engine/scheduler.h"
#include "phalanx/engine/step_plan.h"

namespace phalanx::engine {

// The memory behind the KV blocks of a replica, in every one of its ranks. It is address space
// until it is asked for.
class KvMemory {
 public:
  KvMemory() = default;
  KvMemory(const KvMemory&) = delete;
  KvMemory& operator=(const KvMemory&) = delete;
  virtual ~KvMemory() = default;

  struct Backed {
    std::uint32_t blocks = 0;  // 0 … blocks - 1 have memory
    bool exhausted = false;    // and no more is there
  };

  // Gives the blocks 0 … blocks - 1 memory. Takes it in bounded pieces for a bounded time, about
  // 0.1 s: fewer blocks than asked for without `exhausted` means that the call is to be repeated.
  [[nodiscard]] virtual Backed back(std::uint32_t blocks) = 0;

  // The ranks have given the memory of all blocks back (RankOp::kClear), or are going to before the
  // next step.
  virtual void forget() = 0;
};

inline constexpr std::uint32_t kBlocksAhead = 256;  // 8,192 tokens

// Decides between two steps whether the next one has the memory it needs. Memory that is not there
// makes the scheduler's pool smaller, so that sequences wait or are preempted; from time to time it
// is looked for again.
//
// New memory takes time, of which a prompt whose blocks are all new would wait for a tenth of its
// own: what will be used next is taken while nothing is to be done, as much again as steps have
// used, and at most kBlocksAhead.
//
// Threads: one, the engine's.
class KvBacking {
 public:
  // References outlive the object.
  KvBacking(KvMemory& memory, Scheduler& scheduler, const Clock& clock)
      : memory_(memory), scheduler_(scheduler), clock_(clock) {}

  // The scheduler's next plan, of the sequences in `only` alone if it is given, every block of
  // which has memory. Null: not yet, on_tick() will tell.
  [[nodiscard]] std::optional<StepPlan> plan(const std::set<SequenceId>* only,
                                             const StepBudget& budget);

  // Scheduler::plan_after(), every block of which has memory; null also where that would be
  // missing.
  [[nodiscard]] std::optional<StepPlan> plan_after(const StepPlan& plan);

  // True: there may be a step to plan now. `give_up` gets the end of a sequence that may run (is in
  // `only`, if that is given) and has waited alone, and long, for memory that does not come. Time
  // in which a step runs, or none could, memory or not (`busy`), is no such waiting. Where there is
  // nothing to do it takes memory ahead, a piece in each tick.
  [[nodiscard]] bool on_tick(bool busy,
                             const std::set<SequenceId>* only,
                             const std::function<void(wire::TokenUpdate)>& give_up);

  // on_tick() will take more memory ahead.
  [[nodiscard]] bool takes_ahead() const;

  // As KvMemory::forget().
  void forget();

 private:
  void limit();
  void look_again();
  void note_more();
  [[nodiscard]] bool starved(bool busy);
  void take_ahead();
  [[nodiscard]] bool limited() const {
    return scheduler_.blocks().limit() < scheduler_.blocks().total();
  }

  KvMemory& memory_;
  Scheduler& scheduler_;
  const Clock& clock_;
  std::uint32_t backed_ = 0;
  std::uint32_t used_ = 0;     // blocks that steps have asked for
  std::uint32_t refused_ = 0;  // that number when there was no memory ahead; 0: there was
  std::uint32_t wanted_ = 0;   // blocks with which the plan that met the limit would have gone on
  bool unfinished_ = false;
  bool short_ = false;  // the pool was made smaller, and none has got more memory since
  SteadyTime tried_;
  std::optional<SteadyTime> starved_since_;
};

}  // namespace phalanx::engine
