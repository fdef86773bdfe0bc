// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/kv_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "phalanx/obs/log.h"

namespace phalanx::engine {
namespace {

constexpr auto kTryAgain = std::chrono::seconds(1);
constexpr auto kStarvedLimit = std::chrono::seconds(10);

}  // namespace

std::optional<StepPlan> KvBacking::plan(const std::set<SequenceId>* only,
                                        const StepBudget& budget) {
  for (;;) {
    StepPlan plan = scheduler_.plan(only, &budget);
    const std::uint32_t needed = plan.blocks_end();
    used_ = std::max(used_, needed);
    if (needed > backed_) {
      const KvMemory::Backed got = memory_.back(needed);
      backed_ = std::max(backed_, got.blocks);
      if (backed_ < needed && got.exhausted) {
        wanted_ = needed;
        limit();
        continue;  // in a pool that is smaller now
      }
      if (backed_ < needed) {
        unfinished_ = true;
        return std::nullopt;
      }
      note_more();
    }
    return plan;
  }
}

std::optional<StepPlan> KvBacking::plan_after(const StepPlan& plan) {
  std::optional<StepPlan> next = scheduler_.plan_after(plan);
  used_ = std::max(used_, next ? next->blocks_end() : 0);
  if (next && next->blocks_end() > backed_) {
    backed_ = std::max(backed_, memory_.back(next->blocks_end()).blocks);
    if (next->blocks_end() > backed_) {
      return std::nullopt;  // plan() finds out what that means
    }
  }
  return next;
}

void KvBacking::limit() {
  scheduler_.limit_blocks(backed_);
  tried_ = clock_.now();
  if (!std::exchange(short_, true)) {
    obs::log_warn("kv_memory_short", {{"blocks", backed_}, {"of", scheduler_.blocks().total()}});
  }
}

void KvBacking::note_more() {
  if (std::exchange(short_, false)) {
    obs::log_info("kv_memory_again", {{"blocks", backed_}});
  }
}

// Nothing runs, something waits, and it does not fit into the memory there is.
bool KvBacking::starved(bool busy) {
  if (busy || !limited() || scheduler_.running() > 0 || scheduler_.waiting() == 0) {
    starved_since_.reset();
  } else if (!starved_since_) {
    starved_since_ = clock_.now();
  }
  return starved_since_ && clock_.now() - *starved_since_ >= kStarvedLimit;
}

bool KvBacking::on_tick(bool busy,
                        const std::set<SequenceId>* only,
                        const std::function<void(wire::TokenUpdate)>& give_up) {
  const std::uint32_t before = backed_;
  if (limited() && scheduler_.waiting() > 0 && clock_.now() - tried_ >= kTryAgain) {
    look_again();
  }
  // Asked at each tick, as it forgets those who waited before.
  const bool is_starved = starved(busy) && backed_ == before;
  const auto first = scheduler_.first_waiting(only);
  if (first && is_starved) {
    // Not as a queue that is full, after which it would be sent again.
    give_up(scheduler_.fail(
        *first,
        Error(Code::kDeadlineExceeded,
              "the machine has had no memory for the KV of this sequence for 10 s: " +
                  std::to_string(backed_) + " of " + std::to_string(scheduler_.blocks().total()) +
                  " blocks have any")));
    starved_since_.reset();
    unfinished_ = true;  // who waited behind it may fit
  }
  if (!busy && scheduler_.running() == 0 && scheduler_.waiting() == 0 && takes_ahead()) {
    take_ahead();
  }
  return std::exchange(unfinished_, false);
}

// Where there is no more, a step that needs it finds out, and it is not looked for ahead again
// before more has been used.
bool KvBacking::takes_ahead() const {
  const std::uint32_t target =
      std::min(scheduler_.blocks().total(), used_ + std::min(used_, kBlocksAhead));
  return !limited() && backed_ < target && used_ != refused_;
}

void KvBacking::take_ahead() {
  const KvMemory::Backed got = memory_.back(backed_ + 1);
  backed_ = std::max(backed_, got.blocks);
  refused_ = got.exhausted ? used_ : 0;
}

// The limit is lifted when the memory is there for what was wanted and for the first that waits: a
// sequence that is let in before would be computed only to be preempted again.
void KvBacking::look_again() {
  const BlockPool& blocks = scheduler_.blocks();
  const std::uint64_t used = blocks.limit() - blocks.free();
  const std::uint64_t target = std::min<std::uint64_t>(
      blocks.total(), std::max<std::uint64_t>(wanted_, used + scheduler_.first_waiting_blocks()));
  const KvMemory::Backed got = memory_.back(static_cast<std::uint32_t>(target));
  backed_ = std::max(backed_, got.blocks);
  if (backed_ >= target) {
    scheduler_.limit_blocks(blocks.total());
    note_more();
    unfinished_ = true;
  } else if (got.exhausted) {
    tried_ = clock_.now();
    unfinished_ = unfinished_ || backed_ > blocks.limit();
    scheduler_.limit_blocks(std::max(backed_, blocks.limit()));
  }
}

void KvBacking::forget() {
  backed_ = 0;
  used_ = 0;
  refused_ = 0;
  memory_.forget();
  scheduler_.limit_blocks(scheduler_.blocks().total());  // what was given back may be enough
}

}  // namespace phalanx::engine
