// SPDX-License-Identifier: Apache-2.0
// Memory that is taken before a step needs it.
#include <gtest/gtest.h>

#include "phalanx/engine/kv_memory.h"
#include "phalanx/step/sample_result.h"

#include "support/manual_clock.h"
#include "support/replica_world.h"

namespace phalanx::engine {
namespace {

constexpr std::uint32_t kBlocks = 700;

class Replica {
 public:
  Replica() : scheduler_(options()), backing_(memory, scheduler_, clock_) { memory.piece = 4; }

  void submit(std::uint64_t number, std::uint32_t prompt) {
    wire::Submit submit;
    submit.key = {RequestId(number), ChoiceIndex(0), Attempt(1)};
    submit.prompt_ids.assign(prompt, static_cast<TokenId>(number));
    submit.stop.max_tokens = 1;
    ASSERT_TRUE(scheduler_.submit(submit));
  }
  // One step of all that it may have, to its end. Memory that comes in pieces is asked for again.
  void step() {
    const StepBudget budget(std::chrono::hours(1), 1e9);
    std::optional<StepPlan> plan;
    for (int tries = 0; !plan && tries < 100; ++tries) {
      plan = backing_.plan(nullptr, budget);
    }
    ASSERT_TRUE(plan.has_value());
    static_cast<void>(
        scheduler_.confirm(*plan, std::vector<step::SampleResult>(plan->rows.size())));
  }
  void tick(int times, bool busy = false) {
    for (int i = 0; i < times; ++i) {
      static_cast<void>(backing_.on_tick(busy, nullptr, [](wire::TokenUpdate) {}));
    }
  }
  // Waits for memory that does not come, of those in `only` alone; who has ended at last.
  std::vector<std::uint64_t> starve(const std::set<SequenceId>& only) {
    const StepBudget budget(std::chrono::hours(1), 1e9);
    std::vector<std::uint64_t> ended;
    for (int second = 0; second < 60 && ended.empty(); ++second) {
      const auto plan = backing_.plan(&only, budget);
      EXPECT_TRUE(!plan || plan->rows.empty());
      static_cast<void>(backing_.on_tick(false, &only, [&](wire::TokenUpdate end) {
        EXPECT_EQ(static_cast<Code>(end.error_code), Code::kDeadlineExceeded)
            << "a queue that is full would be tried again";
        ended.push_back(end.key.request.value());
      }));
      clock_.advance(std::chrono::seconds(1));
    }
    return ended;
  }
  // Its client leaves.
  void leave(std::uint64_t number) {
    ASSERT_TRUE(scheduler_.cancel({RequestId(number), ChoiceIndex(0), Attempt(1)}));
    static_cast<void>(scheduler_.sweep());
  }
  // A plan and a tick, `after` the ones before; how many it ends.
  int plan_and_tick(Duration after) {
    clock_.advance(after);
    int ended = 0;
    const StepBudget budget(std::chrono::hours(1), 1e9);
    for (int tries = 0; !backing_.plan(nullptr, budget) && tries < 100; ++tries) {
    }
    static_cast<void>(backing_.on_tick(false, nullptr, [&](wire::TokenUpdate) { ++ended; }));
    return ended;
  }
  [[nodiscard]] SequenceId sequence(std::uint64_t number) const {
    return scheduler_.find({RequestId(number), ChoiceIndex(0), Attempt(1)})->id;
  }
  void forget() { backing_.forget(); }

  testing::FakeKvMemory memory;

 private:
  static SchedulerOptions options() {
    SchedulerOptions options;
    options.limits.max_model_len = 16384;
    options.limits.max_num_seqs = 4;
    options.limits.max_num_batched_tokens = 16384;
    options.limits.kv_blocks = kBlocks;
    options.vocab_size = 1000;
    options.prefix_cache = true;
    return options;
  }

  test::ManualClock clock_;
  Scheduler scheduler_;
  KvBacking backing_;
};

TEST(KvBacking, TakesAsMuchAgainAsWasUsedWhileNothingIsToBeDone) {
  Replica replica;
  replica.tick(10);
  EXPECT_EQ(replica.memory.backed, 0U) << "a server that serves nothing takes nothing";
  replica.submit(1, 10 * 32);
  replica.tick(10);
  EXPECT_EQ(replica.memory.backed, 0U) << "there is something to do";
  replica.step();
  EXPECT_EQ(replica.memory.backed, 10U);
  replica.tick(10, true);
  EXPECT_EQ(replica.memory.backed, 10U) << "a step runs, or a group is formed";
  replica.tick(1);
  EXPECT_EQ(replica.memory.backed, 11U) << "no more than a piece at a time";
  replica.tick(100);
  EXPECT_EQ(replica.memory.backed, 20U);
  const std::uint32_t calls = replica.memory.calls;
  replica.submit(2, 10 * 32);
  replica.step();
  EXPECT_EQ(replica.memory.calls, calls) << "the step waits for no memory";
}

// The time of one that waited in vain counts against no later one.
TEST(KvBacking, EachOneStarvesForItself) {
  Replica replica;
  replica.memory.available = 10;
  replica.submit(1, 20 * 32);
  EXPECT_EQ(replica.plan_and_tick(std::chrono::seconds(1)), 0);
  replica.leave(1);
  for (int second = 0; second < 60; ++second) {
    EXPECT_EQ(replica.plan_and_tick(std::chrono::seconds(1)), 0);
  }
  replica.submit(2, 20 * 32);
  EXPECT_EQ(replica.plan_and_tick(std::chrono::milliseconds(20)), 0);
  EXPECT_EQ(replica.plan_and_tick(std::chrono::seconds(9)), 0);
  EXPECT_EQ(replica.plan_and_tick(std::chrono::seconds(2)), 1);
}

TEST(KvBacking, LooksForMemoryBeforeItGivesUp) {
  Replica replica;
  replica.memory.available = 10;
  replica.submit(1, 20 * 32);
  EXPECT_EQ(replica.plan_and_tick(std::chrono::seconds(1)), 0);
  replica.memory.available = kBlocks;
  EXPECT_EQ(replica.plan_and_tick(std::chrono::seconds(60)), 0) << "it is there again";
}

TEST(KvBacking, TakesAheadWithinBounds) {
  Replica replica;
  replica.submit(1, 300 * 32);
  replica.step();
  replica.tick(500);
  EXPECT_EQ(replica.memory.backed, 300U + kBlocksAhead);
  replica.submit(2, 350 * 32);
  replica.step();
  replica.submit(3, 30 * 32);
  replica.step();
  replica.tick(500);
  EXPECT_EQ(replica.memory.backed, kBlocks) << "not beyond the pool";
  replica.forget();
  replica.tick(500);
  EXPECT_EQ(replica.memory.backed, 0U) << "what was given back is not taken for nothing";
}

TEST(KvBacking, GoesOnWithoutWhatIsNotThere) {
  Replica replica;
  replica.memory.available = 12;
  replica.submit(1, 10 * 32);
  replica.step();
  replica.tick(500);
  EXPECT_EQ(replica.memory.backed, 12U);
  const std::uint32_t calls = replica.memory.calls;
  replica.tick(500);
  EXPECT_EQ(replica.memory.calls, calls) << "it is not asked for in every tick";
  replica.submit(2, 2 * 32);
  replica.step();
}

// While a culprit is looked for, what is not tested has not waited for memory.
TEST(KvBacking, EndsOnlyWhoMayRun) {
  Replica replica;
  replica.memory.available = 10;
  replica.submit(1, 32);
  replica.submit(2, 20 * 32);
  EXPECT_EQ(replica.starve({replica.sequence(2)}), (std::vector<std::uint64_t>{2}));
}

}  // namespace
}  // namespace phalanx::engine
