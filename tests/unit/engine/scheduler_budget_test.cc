// SPDX-License-Identifier: Apache-2.0
// What of a prompt goes on beside decodes.
#include <chrono>
#include <cstdint>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/engine/scheduler.h"
#include "phalanx/engine/step_budget.h"
#include "phalanx/step/sample_result.h"

namespace phalanx::engine {
namespace {

constexpr double kRowReads = 1e9;  // reading costs nothing
constexpr int kRowMicros = 500;

// A scheduler and what it has learnt: a millisecond is two rows.
struct Served {
  explicit Served(int limit_ms,
                  std::uint32_t seqs = 8,
                  std::uint32_t tokens = 256,
                  std::uint32_t blocks = 256)
      : scheduler(options(seqs, tokens, blocks)),
        budget(std::chrono::milliseconds(limit_ms), kRowReads) {
    budget.confirmed(StepWork::prefill(0, 256), std::chrono::microseconds(256 * kRowMicros));
  }

  static SchedulerOptions options(std::uint32_t seqs, std::uint32_t tokens, std::uint32_t blocks) {
    SchedulerOptions options;
    options.limits.max_model_len = 2048;
    options.limits.max_num_seqs = seqs;
    options.limits.max_num_batched_tokens = tokens;
    options.limits.kv_blocks = blocks;
    options.vocab_size = 100;
    options.prefix_cache = true;
    return options;
  }

  void submit(std::uint64_t number, std::uint32_t prompt, std::uint32_t max_tokens) {
    wire::Submit submit;
    submit.key = {RequestId(number), ChoiceIndex(0), Attempt(1)};
    submit.prompt_ids.assign(prompt, static_cast<TokenId>(number));
    submit.stop.max_tokens = max_tokens;
    ASSERT_TRUE(scheduler.submit(submit));
  }

  [[nodiscard]] StepPlan plan() const { return scheduler.plan(nullptr, &budget); }

  StepPlan step() { return confirm(plan()); }
  // Nobody but the sequence of this number, in order of arrival, runs.
  StepPlan step_alone(std::uint64_t number) {
    const std::set<SequenceId> only{SequenceId(number)};
    return confirm(scheduler.plan(&only, &budget));
  }

  StepPlan confirm(const StepPlan& plan) {
    step::SampleResult sample;
    sample.token = 99;
    static_cast<void>(
        scheduler.confirm(plan, std::vector<step::SampleResult>(plan.rows.size(), sample)));
    return plan;
  }

  // So many sequences that draw their second token with the next step.
  void decode(std::uint32_t count) {
    for (std::uint32_t i = 1; i <= count; ++i) {
      submit(i, 3, 1000);
    }
    step();
  }

  Scheduler scheduler;
  StepBudget budget;
};

TEST(SchedulerBudget, CutsPromptsBesideDecodesToTheTime) {
  Served served(80);  // of which it aims at 72 ms: 144 rows
  served.decode(5);
  served.submit(6, 1000, 10);
  std::uint32_t position = 0;
  for (int i = 0; i < 3; ++i) {
    const StepPlan plan = served.step();
    ASSERT_EQ(plan.rows.size(), 6U);
    EXPECT_EQ(plan.rows[5].start, position);
    EXPECT_EQ(plan.rows[5].count, 128U);
    EXPECT_EQ(plan.work.decode_rows, 5U);
    EXPECT_EQ(plan.work.prefill_rows, 128U);
    EXPECT_EQ(plan.tokens, 133U);
    position += plan.rows[5].count;
  }
}

TEST(SchedulerBudget, GivesAPromptTheWholeStepWhereNobodyDecodes) {
  Served served(10);
  served.submit(1, 1000, 10);
  EXPECT_EQ(served.step().tokens, 256U);
  served.submit(2, 1000, 10);
  EXPECT_EQ(served.step().tokens, 256U) << "who waits is no decode";
}

TEST(SchedulerBudget, LeavesStepsAloneWithoutALimit) {
  Served served(0);
  served.decode(5);
  served.submit(6, 1000, 10);
  EXPECT_EQ(served.step().rows[5].count, 251U);
}

TEST(SchedulerBudget, NeverCutsDecodes) {
  Served served(1, 64);  // the decodes alone take longer
  served.decode(60);
  served.submit(61, 100, 10);
  std::vector<std::uint32_t> chunks;
  while (served.scheduler.waiting() > 0 || chunks.size() < 4) {
    const StepPlan plan = served.step();
    ASSERT_EQ(plan.rows.size(), 61U);
    EXPECT_GE(plan.work.decode_rows, 60U);
    chunks.push_back(plan.rows[60].count);
  }
  EXPECT_EQ(chunks, (std::vector<std::uint32_t>{32, 32, 32, 4})) << "a block goes on at a time";
}

TEST(SchedulerBudget, SharesTheTimeInOrderOfArrival) {
  Served served(80);
  served.decode(2);
  served.submit(3, 200, 10);
  served.submit(4, 50, 10);
  served.submit(5, 50, 10);
  const StepPlan first = served.step();
  ASSERT_EQ(first.rows.size(), 3U) << "whoever comes later waits, and is not begun with nothing";
  EXPECT_EQ(first.rows[2].count, 128U);
  const StepPlan second = served.step();
  ASSERT_EQ(second.rows.size(), 5U);
  EXPECT_EQ(second.rows[2].count, 72U);
  EXPECT_EQ(second.rows[3].count, 50U);
  EXPECT_EQ(second.rows[4].count, 6U) << "to the end of the block";
  const StepPlan third = served.step();
  EXPECT_EQ(third.rows.back().count, 44U);
  EXPECT_EQ(third.work.decode_rows, 4U);
}

TEST(SchedulerBudget, LeavesOutARunningPromptThatHasNoTime) {
  Served served(80);
  served.decode(1);
  served.submit(2, 1000, 10);
  served.submit(3, 1000, 10);
  EXPECT_EQ(served.step_alone(2).tokens, 256U);
  EXPECT_EQ(served.step_alone(3).tokens, 256U);
  const StepPlan plan = served.step();
  ASSERT_EQ(plan.rows.size(), 2U);
  EXPECT_EQ(plan.rows[1].sequence, SequenceId(2));
  EXPECT_EQ(plan.rows[1].count, 128U);
}

TEST(SchedulerBudget, CountsNoRowOfWhoIsPreempted) {
  Served served(80, 8, 64, 16);
  served.submit(1, 300, 10);
  served.submit(2, 3, 500);
  served.step_alone(1);  // two blocks of ten
  for (int i = 0; i < 450 && served.scheduler.blocks().free() > 0; ++i) {
    served.step_alone(2);
  }
  ASSERT_EQ(served.scheduler.blocks().free(), 0U);
  ASSERT_EQ(served.scheduler.running(), 2U);
  const StepPlan plan = served.step();  // the answer has room in its block, the prompt has none
  EXPECT_EQ(plan.preempted, (std::vector<SequenceId>{SequenceId(2)}));
  EXPECT_TRUE(plan.rows.empty());
  EXPECT_EQ(plan.work, StepWork{});
}

TEST(SchedulerBudget, PreemptsNobodyForAPromptThatHasNoTime) {
  Served served(20);
  served.decode(1);
  served.submit(2, 300, 10);
  served.submit(3, 300, 10);
  for (int i = 0; i < 5; ++i) {
    const StepPlan plan = served.step();
    EXPECT_EQ(plan.work.prefill_rows, 32U);
    EXPECT_TRUE(plan.preempted.empty());
  }
  EXPECT_EQ(served.scheduler.waiting(), 1U);
}

}  // namespace
}  // namespace phalanx::engine
