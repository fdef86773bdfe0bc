// SPDX-License-Identifier: Apache-2.0
// What of a prompt goes on beside decodes.
#include <chrono>
#include <cstdint>
#include <map>
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
                  std::uint32_t blocks = 256,
                  std::uint32_t max_passes = 64)
      : scheduler(options(seqs, tokens, blocks, max_passes)),
        budget(std::chrono::milliseconds(limit_ms), kRowReads) {
    budget.confirmed(StepWork::prefill(0, 256), std::chrono::microseconds(256 * kRowMicros));
  }

  static SchedulerOptions options(std::uint32_t seqs,
                                  std::uint32_t tokens,
                                  std::uint32_t blocks,
                                  std::uint32_t max_passes) {
    SchedulerOptions options;
    options.max_passes = max_passes;
    options.limits.max_model_len = 2048;
    options.limits.max_num_seqs = seqs;
    options.limits.max_num_batched_tokens = tokens;
    options.limits.kv_blocks = blocks;
    options.vocab_size = 100;
    options.prefix_cache = true;
    return options;
  }

  static wire::SequenceKey key(std::uint64_t number) {
    return {RequestId(number), ChoiceIndex(0), Attempt(1)};
  }

  // Prompts of equal `text` begin alike.
  void submit(std::uint64_t number,
              std::uint32_t prompt,
              std::uint32_t max_tokens,
              std::uint64_t text) {
    wire::Submit submit;
    submit.key = key(number);
    submit.prompt_ids.assign(prompt, static_cast<TokenId>(text));
    submit.stop.max_tokens = max_tokens;
    ASSERT_TRUE(scheduler.submit(submit));
  }
  void submit(std::uint64_t number, std::uint32_t prompt, std::uint32_t max_tokens) {
    submit(number, prompt, max_tokens, number);
  }

  // Steps until a sequence that ends with its first token has it.
  int steps_to_end(std::uint64_t number) {
    int steps = 0;
    for (; scheduler.contains(key(number)) && steps < 1000; ++steps) {
      step();
    }
    return steps;
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

TEST(SchedulerBudget, GivesABlockToTheShortestAndTheRestInOrderOfArrival) {
  Served served(80);
  served.decode(2);
  served.submit(3, 200, 10);
  served.submit(4, 50, 10);
  served.submit(5, 50, 10);
  const auto rows_of = [](const StepPlan& plan) {
    std::map<std::uint64_t, std::uint32_t> rows;
    for (const PlannedRow& row : plan.rows) {
      rows[row.sequence.value()] = row.count;
    }
    return rows;
  };
  using Rows = std::map<std::uint64_t, std::uint32_t>;
  EXPECT_EQ(rows_of(served.step()), (Rows{{1, 1}, {2, 1}, {3, 96}, {4, 32}}))
      << "whoever comes later waits, and is not begun with nothing";
  EXPECT_EQ(rows_of(served.step()), (Rows{{1, 1}, {2, 1}, {3, 104}, {4, 18}, {5, 6}}))
      << "to the end of the block";
  const StepPlan third = served.step();
  EXPECT_EQ(rows_of(third).at(5), 44U);
  EXPECT_EQ(third.work.decode_rows, 4U);
}

TEST(SchedulerBudget, GivesTheShortestWhatOthersLeave) {
  Served served(0);
  served.submit(1, 120, 10);
  served.submit(2, 100, 10);
  const StepPlan plan = served.step();
  EXPECT_EQ(plan.tokens, 220U);
  StepWork work = StepWork::prefill(0, 120);
  work += StepWork::prefill(0, 100);
  EXPECT_EQ(plan.work, work);
}

TEST(SchedulerBudget, GivesTheShortestItsTurnBeforeWhoeverCameLater) {
  Served served(0);
  served.submit(1, 100, 10);
  served.submit(2, 50, 10);
  served.submit(3, 1000, 10);
  const StepPlan plan = served.plan();
  std::map<std::uint64_t, std::uint32_t> rows;
  for (const PlannedRow& row : plan.rows) {
    rows[row.sequence.value()] = row.count;
  }
  EXPECT_EQ(rows, (std::map<std::uint64_t, std::uint32_t>{{1, 100}, {2, 50}, {3, 106}}));
}

// However many rows the one that passes has: the other had none.
TEST(SchedulerBudget, LetsOnePassWhoHasNoSlot) {
  for (const std::uint32_t length : {10U, 100U, 200U}) {
    Served served(0, 1);
    served.submit(1, 2000, 10);
    std::uint64_t number = 2;
    for (; number < 10 && !served.scheduler.find(Served::key(1))->slot; ++number) {
      served.submit(number, length, 1);
      served.step();
    }
    EXPECT_EQ(number, 4U) << length;
  }
}

TEST(SchedulerBudget, LetsAShortPromptPassLongOnes) {
  Served served(0);
  served.submit(1, 2000, 10);
  served.step();
  served.submit(2, 1900, 10);
  served.submit(3, 10, 1);
  const StepPlan plan = served.plan();
  EXPECT_EQ(served.steps_to_end(3), 1);
  EXPECT_EQ(plan.tokens, 256U) << "and the first goes on with the rest";
  EXPECT_EQ(served.scheduler.find(Served::key(1))->computed, 256U + 246U);
  served.submit(4, 100, 1);
  EXPECT_EQ(served.steps_to_end(4), 4) << "a block with each step";
}

TEST(SchedulerBudget, LetsAPromptThatIsCachedPassALongOne) {
  Served served(0);
  served.submit(1, 801, 1);
  EXPECT_EQ(served.steps_to_end(1), 4);
  served.submit(2, 2000, 10);
  served.step();
  served.submit(3, 801, 1, 1);
  EXPECT_EQ(served.steps_to_end(3), 1) << "a row is missing";
}

// Who comes while the step has one block waits for one step of the other.
TEST(SchedulerBudget, LetsALongPromptHaveHalfOfTheTime) {
  for (const std::uint32_t length : {10U, 32U, 60U}) {
    Served served(20);  // one block beside a decode
    served.decode(1);
    served.submit(2, 2000, 10);
    served.step();
    std::uint64_t number = 3;
    std::uint32_t rows = 0;
    while (served.scheduler.find(Served::key(2))->uncomputed() > 200) {
      if (served.scheduler.waiting() == 0) {
        served.submit(number++, length, 1, 98);
      }
      const std::uint32_t before = served.scheduler.find(Served::key(2))->computed;
      rows += served.step().work.prefill_rows;
      rows += served.step().work.prefill_rows;
      EXPECT_GE(served.scheduler.find(Served::key(2))->computed - before, 32U) << length;
    }
    EXPECT_GE(2 * served.scheduler.find(Served::key(2))->computed, rows) << length;
    EXPECT_GT(number, 20U) << "and others pass";
  }
}

TEST(SchedulerBudget, LetsShortPromptsPassALongOneThatWaitsButNotForever) {
  Served served(0, 4, 64, 256, 5);
  served.submit(1, 2000, 10);
  served.step();
  served.submit(2, 2000, 10);
  std::uint64_t passed = 0;
  for (; served.scheduler.running() < 2 && passed < 30; ++passed) {
    served.submit(3 + passed, 10, 1);
    EXPECT_LE(served.steps_to_end(3 + passed), 2);
  }
  EXPECT_GE(passed, 5U);
  EXPECT_LE(passed, 6U);
  EXPECT_GT(served.scheduler.find(Served::key(1))->uncomputed(), 1000U) << "which is not done";
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
