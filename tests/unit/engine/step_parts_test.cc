// SPDX-License-Identifier: Apache-2.0
// The small parts of a step: progress, digest, ring, combined errors, simulated shard.
#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/engine/progress_watch.h"
#include "phalanx/engine/result_ring.h"
#include "phalanx/engine/sim_runner.h"
#include "phalanx/engine/step_fault.h"
#include "phalanx/step/item.h"
#include "phalanx/step/sample_result.h"
#include "phalanx/wire/limits.h"

#include "support/table_memory.h"

namespace phalanx::engine {
namespace {

using std::chrono::milliseconds;

SteadyTime at(int ms) {
  return SteadyTime(milliseconds(ms));
}

TEST(ProgressWatch, CountsOnlyTicksThatCameOnTime) {
  ProgressWatch watch({}, 1);
  const std::vector<std::uint64_t> words{0};
  EXPECT_FALSE(watch.tick(at(1000), 1, words).counted) << "nothing came before the first";
  EXPECT_TRUE(watch.tick(at(1020), 1, words).counted);
  EXPECT_TRUE(watch.tick(at(1050), 1, words).counted);
  EXPECT_FALSE(watch.tick(at(1081), 1, words).counted) << "late";
  EXPECT_FALSE(watch.tick(at(1090), 1, words).counted) << "made up for";
  EXPECT_FALSE(watch.tick(at(9000), 1, words).counted) << "the machine slept";
  EXPECT_TRUE(watch.tick(at(9020), 1, words).counted);
}

TEST(ProgressWatch, CountsALongWaitThatWasAskedFor) {
  ProgressWatch watch({}, 1);
  const std::vector<std::uint64_t> words{0};
  static_cast<void>(watch.tick(at(1000), 1, words));
  EXPECT_TRUE(watch.tick(at(1200), 10, words).counted);
  EXPECT_FALSE(watch.tick(at(1411), 10, words).counted) << "late";
  EXPECT_FALSE(watch.tick(at(1431), 10, words).counted) << "early";
  EXPECT_FALSE(watch.tick(at(1631), 1, words).counted) << "none was asked for";
}

TEST(ProgressWatch, SeesWhichWordsMoved) {
  ProgressWatch watch({}, 3);
  static_cast<void>(watch.tick(at(0), 1, std::vector<std::uint64_t>{1, 2, 3}));
  const ProgressTick tick = watch.tick(at(20), 1, std::vector<std::uint64_t>{1, 9, 2});
  EXPECT_EQ(tick.moved, (std::vector<std::uint8_t>{0, 1, 1}));
}

TEST(ProgressWatch, GrowsPatientWithTheGapsItHasSeen) {
  ProgressOptions options;
  options.min_ticks = 10;
  options.gap_factor = 4;
  options.start_ticks = 100;
  ProgressWatch watch(options, 1);
  EXPECT_EQ(watch.patience(), 10U);
  watch.saw_gap(2);
  EXPECT_EQ(watch.patience(), 10U);
  watch.saw_gap(7);
  watch.saw_gap(3);
  EXPECT_EQ(watch.patience(), 28U);
  watch.saw_gap(60);
  EXPECT_EQ(watch.patience(), 100U) << "a start is the slowest thing there is";
}

TEST(ResultRing, KeepsTwoStepsApart) {
  std::vector<step::SampleResult> memory(6);
  ResultRing ring(memory, 3);
  EXPECT_FALSE(ring.read(StepId(4), 0));
  step::SampleResult result;
  result.sequence = 9;
  result.token = 40;
  result.top_count = 1;
  result.top[0] = {3, -2.0F};
  ring.publish(StepId(4), 2, result);
  result.token = 50;
  ring.publish(StepId(5), 2, result);
  ASSERT_TRUE(ring.read(StepId(4), 2));
  EXPECT_EQ(ring.read(StepId(4), 2)->token, 40);
  EXPECT_EQ(ring.read(StepId(4), 2)->top[0].token, 3);
  EXPECT_EQ(ring.read(StepId(5), 2)->token, 50);
  EXPECT_FALSE(ring.read(StepId(5), 1));
  ring.publish(StepId(6), 2, result);
  EXPECT_FALSE(ring.read(StepId(4), 2)) << "overwritten, and says so";
}

TEST(ResultRing, OutlivesItsWriter) {
  std::vector<step::SampleResult> memory(2);
  ResultRing(memory, 1).publish(StepId(8), 0, {0, 3, 7, 0.0F, 0, 0, {}});
  ResultRing again(memory, 1);
  ASSERT_TRUE(again.read(StepId(8), 0));
  EXPECT_EQ(again.read(StepId(8), 0)->token, 7);
}

TEST(StepFault, PutsTheOwnFailureFirstAndTypesByTheFirstCause) {
  StepFault fault;
  fault.ranks.push_back({RankId(2), RankFailure::Kind::kReply, aborted("freed")});
  EXPECT_EQ(fault.combined().code(), Code::kAborted);
  fault.ranks.insert(fault.ranks.begin(),
                     {RankId(1), RankFailure::Kind::kDeath, unavailable("it died")});
  fault.never_asked = {RankId(3)};
  EXPECT_EQ(fault.combined().to_string(),
            "unavailable: rank 1: unavailable: it died; rank 2: aborted: freed; rank 3: not "
            "asked");
  fault.own = internal_error("mine");
  EXPECT_EQ(fault.combined().code(), Code::kInternal);
  EXPECT_EQ(fault.combined().message().find("replica: internal: mine; rank 1"), 0U);
}

class FakeHost final : public SimHost {
 public:
  Status join(Epoch epoch) override {
    joined = epoch;
    return ok();
  }
  Status sanity() override { return ok(); }
  Status barrier() override {
    ++barriers;
    return ok();
  }
  Status wait(Duration duration) override {
    waited += duration;
    return aborting ? Status(aborted("up")) : ok();
  }
  Epoch joined;
  Duration waited{};
  int barriers = 0;
  bool aborting = false;
};

class SimRunnerTest : public ::testing::Test {
 protected:
  SimOptions options{milliseconds(2), std::chrono::microseconds(100), 200};
  FakeHost host;
};

TEST_F(SimRunnerTest, TakesTheModelledTimeAndMeetsItsPeersOnce) {
  SimRunner runner(options, host);
  ASSERT_TRUE(runner.init(Epoch(4)));
  EXPECT_EQ(host.joined, Epoch(4));
  testing::TableMemory table({64, 4, 64, 8}, 300);
  step::SequenceAttach attach;
  attach.slot = 1;
  attach.sequence = 5;
  attach.tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  attach.prompt_tokens = 8;
  ASSERT_TRUE(table->attach(attach));
  step::StepItem item;
  item.slot = 1;
  item.sequence = 5;
  item.count = 8;
  item.sample = true;
  std::vector<step::SampleResult> results(1);
  ASSERT_TRUE(runner.step(*table, std::vector{item}, results));
  EXPECT_EQ(host.waited, std::chrono::microseconds(2800));
  EXPECT_EQ(host.barriers, 1);
  EXPECT_EQ(results[0].token, runner.draw(table->row(1), 8));

  host.aborting = true;
  EXPECT_EQ(runner.step(*table, std::vector{item}, results).error().code(), Code::kAborted);
}

TEST_F(SimRunnerTest, DrawsByTheRequestAloneAndNeverAStopToken) {
  SimRunner runner(options, host);
  SimRunner other(options, host);
  step::SequenceRow one;
  one.sampling.seed = 77;
  std::set<TokenId> drawn;
  for (std::uint32_t position = 0; position < 2000; ++position) {
    const TokenId token = runner.draw(one, position);
    EXPECT_EQ(token, other.draw(one, position));
    drawn.insert(token);
  }
  EXPECT_EQ(drawn.size(), 200U);
  EXPECT_EQ(*drawn.begin(), 0);
  step::SequenceRow other_choice = one;
  other_choice.choice = 1;
  EXPECT_NE(runner.draw(one, 3), runner.draw(other_choice, 3));

  const auto end = static_cast<TokenId>(step::kMaxStopTokens);
  for (TokenId stop = 0; stop < end; ++stop) {
    one.masked[one.masked_count++] = stop;
  }
  for (std::uint32_t position = 0; position < 500; ++position) {
    EXPECT_GE(runner.draw(one, position), end);
  }
}

}  // namespace
}  // namespace phalanx::engine
