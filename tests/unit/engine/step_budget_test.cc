// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/step_budget.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace phalanx::engine {
namespace {

constexpr double kLimit = 100.0;
constexpr double kRowReads = 4000.0;

Duration milliseconds(double ms) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(ms));
}

// So long the steps of a machine take.
struct Machine {
  double fixed = 8.0;
  double row = 0.25;
  double decode = 0.3;
  double read = 0.25 / kRowReads;

  [[nodiscard]] double takes(const StepWork& work) const {
    return fixed + row * work.prefill_rows + decode * work.decode_rows +
           read * static_cast<double>(work.context);
  }
};

StepWork decodes(std::uint32_t count, std::uint32_t context = 100) {
  StepWork work;
  for (std::uint32_t i = 0; i < count; ++i) {
    work += StepWork::decode(context);
  }
  return work;
}

struct Step {
  std::uint32_t rows = 0;
  double took = 0.0;
};

// A budget, and a machine that does what it allows.
struct Bench {
  Machine machine;
  StepBudget budget{milliseconds(kLimit), kRowReads};

  Step run(StepWork work, double stall = 0.0) {
    const double took = machine.takes(work) + stall;
    budget.confirmed(work, milliseconds(took));
    return {work.prefill_rows, took};
  }

  // One step of a prompt that goes on at `start`, beside `others`.
  Step beside(const StepWork& others, std::uint32_t start, double stall = 0.0) {
    StepWork work = others;
    work += StepWork::prefill(start, budget.prefill_rows(others, start));
    return run(work, stall);
  }

  // The part of a prompt from `start` to `end`.
  std::vector<Step> prompt(const StepWork& others, std::uint32_t start, std::uint32_t end) {
    std::vector<Step> steps;
    while (start < end) {
      steps.push_back(beside(others, start));
      if (steps.back().rows == 0) {
        ADD_FAILURE() << "the prompt never ends";
        break;
      }
      start += steps.back().rows;
    }
    return steps;
  }

  // What the life of a server begins with: a prompt alone, and its answer.
  void learn() {
    run(StepWork::prefill(0, 512));
    run(StepWork::prefill(512, 512));
    for (int i = 0; i < 8; ++i) {
      run(decodes(1));
    }
  }
};

TEST(StepWork, CountsRowsAndWhatTheyRead) {
  StepWork work = StepWork::prefill(10, 3);  // they read 11, 12 and 13 positions
  EXPECT_EQ(work, (StepWork{.prefill_rows = 3, .context = 36}));
  work += StepWork::decode(99);
  EXPECT_EQ(work, (StepWork{.prefill_rows = 3, .decode_rows = 1, .context = 136}));
  work -= StepWork::prefill(10, 3);
  EXPECT_EQ(work, StepWork::decode(99));
  EXPECT_EQ(StepWork::prefill(1U << 20, 1U << 16).context,
            (std::uint64_t{1} << 36) + (std::uint64_t{1} << 31) + (std::uint64_t{1} << 15));
}

TEST(StepBudget, LimitsNothingWithoutALimitOrWhereNobodyDecodes) {
  StepBudget unlimited{Duration{}, kRowReads};
  unlimited.confirmed(StepWork::prefill(0, 512), milliseconds(5000));
  EXPECT_EQ(unlimited.prefill_rows(decodes(1), 0), StepBudget::kUnlimited);

  StepBudget limited{milliseconds(kLimit), kRowReads};
  limited.confirmed(StepWork::prefill(0, 512), milliseconds(5000));
  EXPECT_EQ(limited.prefill_rows({}, 0), StepBudget::kUnlimited);
  EXPECT_EQ(limited.prefill_rows(StepWork::prefill(0, 40), 0), StepBudget::kUnlimited);
  EXPECT_EQ(limited.prefill_rows(decodes(1), 0), 32U);
}

TEST(StepBudget, FillsTheLimitAndNoMore) {
  Bench bench;
  bench.learn();
  for (const Step& step : bench.prompt(decodes(4), 0, 2000)) {
    EXPECT_EQ(step.rows % StepBudget::kBlockRows, 0U);
    EXPECT_LE(step.took, kLimit);
    EXPECT_GE(step.took, 0.75 * kLimit) << step.rows << " rows";
  }
}

TEST(StepBudget, LetsABlockGoOnHoweverSlowTheMachine) {
  Bench bench;
  bench.machine.row = 50.0;
  bench.machine.fixed = 400.0;
  bench.learn();
  const auto steps = bench.prompt(decodes(64), 0, 320);
  ASSERT_EQ(steps.size(), 10U);
  for (const Step& step : steps) {
    EXPECT_EQ(step.rows, 32U);
  }
}

TEST(StepBudget, GivesABlockToShortPromptsTogether) {
  Bench bench;
  bench.machine.row = 50.0;
  bench.learn();
  StepWork planned = decodes(3);
  planned += StepWork::prefill(0, 5);
  EXPECT_EQ(bench.budget.prefill_rows(planned, 0), 27U);
  planned += StepWork::prefill(0, 27);
  EXPECT_EQ(bench.budget.prefill_rows(planned, 0), 0U);
}

TEST(StepBudget, CompletesBlocksWhereThereIsTime) {
  Bench bench;
  bench.learn();
  StepWork planned = decodes(3);
  planned += StepWork::prefill(0, 40);
  const std::uint32_t rows = bench.budget.prefill_rows(planned, 0);
  EXPECT_GT(rows, 100U);
  EXPECT_EQ((40 + rows) % StepBudget::kBlockRows, 0U);
}

// A prompt of a few rows says little, least of all the first one.
TEST(StepBudget, BeginsSmallAndDoublesWhatWasMeasured) {
  Bench bench;
  const StepWork others = decodes(1);
  EXPECT_EQ(bench.budget.prefill_rows(others, 0), 32U) << "nothing is known";
  bench.run(StepWork::prefill(0, 5));
  bench.run(others);
  const std::vector<Step> steps = bench.prompt(others, 0, 1500);
  std::uint32_t before = 16;
  for (const Step& step : steps) {
    EXPECT_LE(step.rows, 2 * before);
    EXPECT_LE(step.took, kLimit);
    before = step.rows;
  }
  EXPECT_GT(steps[4].rows, 200U);
}

TEST(StepBudget, IsNotImpressedByOneStall) {
  Bench bench;
  bench.learn();
  const StepWork others = decodes(2);
  const std::uint32_t before = bench.beside(others, 0).rows;
  bench.beside(others, 0, 3000.0);
  EXPECT_GE(bench.budget.prefill_rows(others, 0), before * 6 / 10);
  for (int i = 0; i < 4; ++i) {
    bench.beside(others, 0);
  }
  EXPECT_GE(bench.budget.prefill_rows(others, 0), before * 9 / 10);

  bench.run(others, 3000.0);  // while nothing but decodes goes on
  EXPECT_GE(bench.budget.prefill_rows(others, 0), before * 8 / 10);
}

// The memory of the KV is fresh and the caches are cold: there is nothing to hold it against.
TEST(StepBudget, ForgetsThatItsFirstStepsStalled) {
  Bench bench;
  bench.run(StepWork::prefill(0, 512), 3000.0);
  bench.run(decodes(1), 500.0);
  bench.run(decodes(1));
  for (int i = 0; i < 16; ++i) {
    bench.beside(decodes(1), 0);
  }
  EXPECT_GT(bench.budget.prefill_rows(decodes(1), 0), 200U);
}

// Three rows in a step that lasted a little longer, or less, would make a row expensive, or cheap.
// Steps are sent ahead by what they are expected to take, where there are decodes alone, too.
TEST(StepBudget, ForgetsInDecodesThatItsFirstPromptStalled) {
  StepBudget budget(milliseconds(kLimit), kRowReads);
  budget.confirmed(StepWork::prefill(0, 5), milliseconds(2000));
  for (int i = 0; i < 100; ++i) {
    budget.confirmed(decodes(1), milliseconds(30));
  }
  EXPECT_LT(to_milliseconds(budget.expected(decodes(1))), 60.0);
  for (int i = 0; i < 100; ++i) {
    budget.confirmed(decodes(16), milliseconds(45));
  }
  EXPECT_LT(to_milliseconds(budget.expected(decodes(16))), 90.0);
}

TEST(StepBudget, LearnsLittleFromShortPrompts) {
  Bench bench;
  bench.learn();
  const std::uint32_t before = bench.beside(decodes(1), 0).rows;
  for (int i = 0; i < 6; ++i) {
    StepWork work = decodes(1);
    work += StepWork::prefill(0, 3);
    bench.run(work, i % 2 == 0 ? 4.0 : -4.0);
  }
  EXPECT_GE(bench.budget.prefill_rows(decodes(1), 0), before * 8 / 10);
}

TEST(StepBudget, FollowsAMachineThatBecomesSlowerAndFasterAgain) {
  Bench bench;
  bench.learn();
  const StepWork others = decodes(2);
  const std::uint32_t before = bench.beside(others, 0).rows;
  bench.machine = {24.0, 0.75, 0.9, 0.75 / kRowReads};
  int late = 0;
  for (int i = 0; i < 10; ++i) {
    late += bench.beside(others, 0).took > kLimit ? 1 : 0;
  }
  EXPECT_LE(late, 5);
  EXPECT_LE(bench.beside(others, 0).took, kLimit);
  bench.machine = {};
  for (int i = 0; i < 20; ++i) {
    EXPECT_LE(bench.beside(others, 0).took, kLimit);
  }
  EXPECT_GE(bench.budget.prefill_rows(others, 0), before * 8 / 10);
}

TEST(StepBudget, GivesFewerRowsWhereTheyReadMore) {
  Bench bench;
  bench.learn();
  const auto early = bench.budget.prefill_rows(decodes(1), 0);
  const auto late = bench.budget.prefill_rows(decodes(1), 16000);
  EXPECT_GE(early, 256U);
  EXPECT_LE(late, 64U) << "the first chunk behind a long cached beginning";
  for (const Step& step : bench.prompt(decodes(1), 0, 16000)) {
    EXPECT_LE(step.took, kLimit);
  }
}

// What it was told of the cost of reading is wrong by three times in either direction.
TEST(StepBudget, LearnsTheCostOfReadingInTheCourseOfAPrompt) {
  for (const double error : {3.0, 1.0 / 3.0}) {
    Bench bench;
    bench.machine.read *= error;
    bench.learn();
    int late = 0;
    int steps = 0;
    for (int i = 0; i < 3; ++i) {
      for (const Step& step : bench.prompt(decodes(1), 0, 12000)) {
        late += step.took > kLimit ? 1 : 0;
        EXPECT_LE(step.took, 1.5 * kLimit);
        ++steps;
      }
    }
    EXPECT_LE(late, steps / 20) << "of " << steps << ", error " << error;
  }
}

TEST(StepBudget, ComesToRestAndStaysThere) {
  for (const double scatter : {0.0, 0.1}) {
    Bench bench;
    bench.learn();
    std::uint32_t least = StepBudget::kUnlimited;
    std::uint32_t most = 0;
    for (int i = 0; i < 60; ++i) {
      const double noise = scatter * kLimit * (i % 3 - 1);  // one late, one early, one as it was
      const Step step = bench.beside(decodes(3), 0, noise);
      if (i >= 20) {
        least = std::min(least, step.rows);
        most = std::max(most, step.rows);
      }
    }
    EXPECT_LE(most - least, scatter > 0.0 ? 64U : 0U) << least << " … " << most;
  }
}

// Sequences join and leave while prompts never pause, so that no step shows what decodes cost.
TEST(StepBudget, FollowsTheNumberOfDecodesWithoutAPauseOfThePrompts) {
  Bench bench;
  bench.machine.decode = 0.8;
  bench.learn();
  bench.prompt(decodes(2), 0, 1000);
  int late = 0;
  for (int i = 0; i < 20; ++i) {
    late += bench.beside(decodes(60), 0).took > kLimit ? 1 : 0;
  }
  EXPECT_LE(late, 3);
  for (int i = 0; i < 20; ++i) {
    EXPECT_LE(bench.beside(decodes(2), 0).took, kLimit);
  }
  EXPECT_GE(bench.budget.prefill_rows(decodes(2), 0), 224U);
}

// The fixed time was learnt on a machine that others used, and is never measured alone again.
TEST(StepBudget, DropsAFixedTimeThatAWholeStepHasBeaten) {
  Bench bench;
  bench.machine.fixed = 95.0;
  bench.learn();
  EXPECT_EQ(bench.beside(decodes(1), 0).rows, 32U);
  bench.machine.fixed = 8.0;
  for (int i = 0; i < 8; ++i) {
    EXPECT_LE(bench.beside(decodes(1), 0).took, kLimit);
  }
  EXPECT_GE(bench.budget.prefill_rows(decodes(1), 0), 224U);
}

TEST(StepBudget, SaysWhatItExpects) {
  Bench bench;
  bench.learn();
  StepWork work = decodes(2);
  work += StepWork::prefill(300, 200);
  const double takes = bench.machine.takes(work);
  EXPECT_NEAR(to_milliseconds(bench.budget.expected(work)), takes, 0.1 * takes);
}

}  // namespace
}  // namespace phalanx::engine
