// SPDX-License-Identifier: Apache-2.0
// Steps that are sent before the results of the one before them are known.
#include <algorithm>
#include <csignal>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/wire/codec.h"

#include "support/replica_world.h"

namespace phalanx::testing {
namespace {

using step::FinishReason;
using wire::RankOp;

// Every step that rank 0 was asked for, and what was under way then.
struct Asked {
  wire::RankCommand command;
  StepId answered;  // the last step that it had answered
  Millis at = 0;
};

void watch_steps(ReplicaWorld& world, std::vector<Asked>& asked) {
  world.transport.judge_with(
      [&world, &asked, answered = StepId(0)](const Passage& passage) mutable {
        if (passage.rank == kFirst && passage.direction == Direction::kToReplica) {
          answered = wire::decode_rank_reply(passage.bytes)->step;
        } else if (passage.rank == kFirst) {
          wire::RankCommand command = *wire::decode_rank_command(passage.bytes);
          if (command.op == RankOp::kStep) {
            asked.push_back({std::move(command), answered, world.time.millis()});
          }
        }
        return Treatment{};
      });
}

TEST(StepsAhead, AreSentBeforeTheOneInFlightIsDone) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  std::vector<Asked> asked;
  watch_steps(world, asked);
  world.submit(world.request(1, 20, 40));
  world.submit(world.request(2, 30, 40));
  ASSERT_TRUE(world.run_to_ends());
  const auto ahead = std::count_if(asked.begin(), asked.end(), [](const Asked& step) {
    return step.command.step.value() > step.answered.value() + 1;
  });
  EXPECT_GE(ahead, 35);
  EXPECT_LE(asked.size(), 43U) << "two sequences side by side";
  EXPECT_EQ(world.engine.status().drains, 0U);
}

// A prompt that goes on is planned when the step before it is done.
TEST(StepsAhead, AreThoseThatOnlyDecode) {
  WorldOptions options;
  options.cluster.max_num_batched_tokens = 16;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  std::vector<Asked> asked;
  watch_steps(world, asked);
  world.submit(world.request(1, 100, 5));
  ASSERT_TRUE(world.run_to_ends());
  ASSERT_EQ(asked.size(), 7U + 4U);
  for (std::size_t i = 1; i < 7; ++i) {
    EXPECT_LE(asked[i].command.step.value(), asked[i].answered.value() + 1) << i;
  }
}

// Who waits for memory holds nobody up, and comes in when somebody has ended.
TEST(StepsAhead, AreSentWhileSomebodyWaitsForMemory) {
  WorldOptions options;
  options.cluster.kv_blocks = 5;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  std::vector<Asked> asked;
  watch_steps(world, asked);
  world.submit(world.request(1, 60, 60));
  world.submit(world.request(2, 100, 60));
  ASSERT_TRUE(world.run_to_ends());
  const auto ahead = std::count_if(asked.begin(), asked.end(), [](const Asked& step) {
    return step.command.step.value() > step.answered.value() + 1;
  });
  EXPECT_GE(ahead, 2 * 57);
  EXPECT_EQ(world.engine.status().preemptions, 0U);
}

// Of a sequence that has come to its end unforeseen nothing more is told, and its blocks are free,
// although it is being computed once more.
TEST(StepsAhead, EndWithTheTokenThatStops) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  const wire::Submit undisturbed = world.request(1, 20, 30);
  world.submit(undisturbed);
  ASSERT_TRUE(world.run_to_ends());
  const std::vector<TokenId> tokens = entry(world, 1).tokens;

  wire::Submit again = undisturbed;
  again.key.attempt = Attempt(2);
  again.stop.stop_token_ids = {tokens[11]};
  ASSERT_EQ(std::find(tokens.begin(), tokens.begin() + 11, tokens[11]), tokens.begin() + 11);
  world.submit(world.request(2, 25, 60));
  world.submit(again);
  ASSERT_TRUE(world.run_to_ends());
  const LeaderBook::Entry& stopped = world.book.at(again.key);
  EXPECT_EQ(stopped.end->finish, FinishReason::kStop);
  EXPECT_EQ(stopped.tokens, std::vector<TokenId>(tokens.begin(), tokens.begin() + 12));
  EXPECT_EQ(entry(world, 2).tokens.size(), 60U);
  EXPECT_EQ(world.engine.status().drains, 0U);
  EXPECT_EQ(world.engine.status().kv_blocks_free, world.engine.status().kv_blocks_total);
}

// The step behind the last token computes for nobody: the end waits for it, and kills no rank for it.
TEST(StepsAhead, BehindTheLastTokenEndBeforeTheRanksDo) {
  for (Millis delay = 0; delay <= 12; ++delay) {
    ReplicaWorld world({});
    ASSERT_TRUE(world.start());
    wire::Submit submit = world.request(1, 20, 30);
    world.submit(submit);
    ASSERT_TRUE(world.run_to_ends());
    submit.key.attempt = Attempt(2);
    submit.stop.stop_token_ids = {entry(world, 1).tokens[11]};
    world.submit(submit);
    ASSERT_TRUE(world.run_to_ends());
    world.pass(delay);
    world.engine.stop(wire::StopReplica{false, 0});
    ASSERT_TRUE(world.run_until([&] { return world.book.stopped.has_value(); }));
    EXPECT_TRUE(*world.book.stopped);
    EXPECT_EQ(world.engine.status().drains, 0U) << "stopped after " << delay << " ms";
    EXPECT_EQ(world.cluster.kills(), 0U);
    EXPECT_EQ(world.cluster.count(RankOp::kShutdown), 2U);
  }
}

// Whoever arrives while a long step runs takes part in the next one.
TEST(StepsAhead, AreNotSentLongBeforeTheirTurn) {
  WorldOptions options;
  options.cluster.work = 60;
  options.cluster.jitter = 0;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  std::vector<Asked> asked;
  watch_steps(world, asked);
  world.submit(world.request(1, 20, 30));
  ASSERT_TRUE(world.run_until([&] { return entry(world, 1).tokens.size() == 10; }));
  world.pass(20);
  const StepId in_flight = asked.back().command.step;
  world.submit(world.request(2, 20, 5));
  ASSERT_TRUE(world.run_to_ends());
  const auto joined = std::find_if(asked.begin(), asked.end(), [&](const Asked& step) {
    return step.command.items.size() == 2;
  });
  ASSERT_NE(joined, asked.end());
  EXPECT_EQ(joined->command.step.value(), in_flight.value() + 1);
  // And yet the ranks do not wait.
  const Asked& last = asked.back();
  EXPECT_GT(last.command.step.value(), last.answered.value() + 1);
}

// At every moment of two steps, of which the first ends one of the sequences: whatever was under
// way is drained, what had not been confirmed is done again, and nothing is repeated for who has
// ended.
TEST(StepsAhead, FailTogetherAndAreRepeatedFromTheFirst) {
  ReplicaWorld calm({});
  ASSERT_TRUE(calm.start());
  calm.submit(calm.request(1, 20, 30));
  ASSERT_TRUE(calm.run_to_ends());
  const TokenId stop = entry(calm, 1).tokens[11];

  int revised = 0;
  for (Millis delay = 0; delay <= 24; ++delay) {
    for (const RankId victim : {kFirst, kSecond}) {
      SCOPED_TRACE("after " + std::to_string(delay) + " ms, rank " +
                   std::to_string(victim.value()));
      ReplicaWorld world({});
      ASSERT_TRUE(world.start());
      std::vector<Asked> asked;
      watch_steps(world, asked);
      wire::Submit stopping = world.request(1, 20, 30);
      stopping.stop.stop_token_ids = {stop};
      world.submit(stopping);
      world.submit(world.request(2, 25, 40));
      ASSERT_TRUE(world.run_until([&] { return entry(world, 1).tokens.size() == 11; }));
      world.pass(delay);
      world.cluster.crash(victim, SIGKILL);
      ASSERT_TRUE(world.run_to_ends());
      EXPECT_EQ(entry(world, 1).tokens.size(), 12U);
      EXPECT_EQ(entry(world, 2).tokens.size(), 40U);
      EXPECT_EQ(world.engine.status().drains, 1U);
      EXPECT_EQ(world.cluster.kills(), 0U) << "nobody else had to go";
      std::map<StepId, std::size_t> items;
      for (const Asked& step : asked) {
        const auto [before, first] = items.emplace(step.command.step, step.command.items.size());
        revised += !first && step.command.items.size() < before->second ? 1 : 0;
      }
    }
  }
  EXPECT_GT(revised, 0) << "no step was repeated without the one who had ended";
}

// What is computed for a sequence that has ended can end a rank, too. Nobody is left to look for,
// so the group pays for it: such deaths are bounded like all others.
TEST(StepsAhead, ThatKillForASequenceThatHasEndedAreChargedToTheGroup) {
  ReplicaWorld calm({});
  ASSERT_TRUE(calm.start());
  calm.submit(calm.request(1, 20, 30));
  ASSERT_TRUE(calm.run_to_ends());

  WorldOptions options;
  options.restart_limit = 3;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  world.cluster.poison([](const step::StepItem& item) { return item.start == 31; });
  for (std::uint32_t attempt = 1; attempt <= 5 && world.book.failed.empty(); ++attempt) {
    wire::Submit stopping = world.request(1, 20, 30);
    stopping.key.attempt = Attempt(attempt);
    stopping.stop.stop_token_ids = {entry(calm, 1).tokens[11]};  // drawn by the row at 30
    world.submit(stopping);
    ASSERT_TRUE(world.run_until([&] { return !world.book.open(stopping.key); }));
    EXPECT_EQ(world.book.at(stopping.key).end->finish, FinishReason::kStop);
    EXPECT_EQ(world.book.at(stopping.key).tokens.size(), 12U);
    world.pass(200);
  }
  EXPECT_EQ(world.book.failed.size(), 1U) << "ranks die without end";
}

// A step does not overtake the one before it on a link that takes nothing for a while.
TEST(StepsAhead, WaitUntilTheOneInFlightHasReachedEveryRank) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  int refusals = 0;
  std::map<RankId, StepId> reached;
  world.transport.judge_with([&](const Passage& passage) {
    Treatment treatment;
    if (passage.direction == Direction::kToRank) {
      const wire::RankCommand command = *wire::decode_rank_command(passage.bytes);
      if (passage.rank == kSecond && world.time.millis() % 40 < 15) {
        treatment.sent = wire::Sent::kWouldBlock;
        ++refusals;
      } else if (command.op == RankOp::kStep) {
        EXPECT_GT(command.step, reached[passage.rank]) << "overtaken";
        reached[passage.rank] = command.step;
      }
    }
    return treatment;
  });
  world.submit(world.request(1, 20, 60));
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(entry(world, 1).tokens.size(), 60U);
  EXPECT_EQ(world.engine.status().drains, 0U);
  EXPECT_GT(refusals, 10);
}

}  // namespace
}  // namespace phalanx::testing
