// SPDX-License-Identifier: Apache-2.0
// What a group does where memory, processes or descriptors are lacking, and where a rank does not
// die.
#include <csignal>

#include <gtest/gtest.h>

#include "support/replica_world.h"

namespace phalanx::testing {
namespace {

using wire::RankOp;

constexpr Millis kPause = 1000;  // GroupOptions::shortage_periods

// A request, and the death of a rank in the middle of it.
void lose_a_rank(ReplicaWorld& world) {
  world.submit(world.request(1, 20, 20));
  ASSERT_TRUE(world.run_until([&] { return entry(world, 1).tokens.size() >= 3; }));
  world.cluster.crash(kSecond, SIGKILL);
}

TEST(GroupShortage, OfARankThatEndsBySayingSoIsWaitedFor) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.cluster.starve_next(3);
  lose_a_rank(world);
  const Millis begin = world.time.millis();
  ASSERT_TRUE(world.run_until([&] { return entry(world, 1).end.has_value(); }, 20000));
  EXPECT_GE(world.time.millis() - begin, 3 * kPause);
  EXPECT_TRUE(world.book.failed.empty());
  EXPECT_EQ(entry(world, 1).tokens.size(), 20U);
  EXPECT_EQ(world.cluster.count(wire::RankOp::kClear), 0U) << "what was computed is kept";
}

TEST(GroupShortage, ThatKeepsARankFromBeingMadeIsWaitedFor) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.cluster.refuse_respawns(resource_exhausted("fork: no memory"));
  lose_a_rank(world);
  EXPECT_FALSE(world.run_until([&] { return entry(world, 1).end.has_value(); }, 3 * kPause));
  EXPECT_TRUE(world.book.failed.empty());
  world.cluster.allow_respawns();
  ASSERT_TRUE(world.run_until([&] { return entry(world, 1).end.has_value(); }, 20000));
  EXPECT_EQ(entry(world, 1).tokens.size(), 20U);
  EXPECT_EQ(world.cluster.count(wire::RankOp::kClear), 0U) << "what was computed is kept";
}

TEST(GroupShortage, ThatKeepsTheCommunicatorFromRanksIsWaitedFor) {
  WorldOptions options;
  options.restart_limit = 1;  // the death
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  world.cluster.fail_next_segment(resource_exhausted("too many descriptors on their way"));
  lose_a_rank(world);
  const Millis begin = world.time.millis();
  ASSERT_TRUE(world.run_until([&] { return entry(world, 1).end.has_value(); }, 20000));
  EXPECT_GE(world.time.millis() - begin, kPause);
  EXPECT_TRUE(world.book.failed.empty());
  EXPECT_EQ(entry(world, 1).tokens.size(), 20U);
  EXPECT_EQ(world.cluster.spawns(), 3U) << "nobody is to blame";
}

// No fault that counts: neither does it use up what is allowed, nor does it need to be allowed.
TEST(GroupShortage, UsesUpNoRestarts) {
  for (const std::uint32_t limit : {0U, 1U}) {
    WorldOptions options;
    options.restart_limit = limit;
    ReplicaWorld world(options);
    ASSERT_TRUE(world.start());
    for (int round = 0; round < 3; ++round) {
      world.cluster.starve(kSecond);
      world.cluster.starve_next(2);
      world.pass(kPause / 2);
      ASSERT_TRUE(world.run_until([&] { return world.engine.group().ready(); }));
    }
    EXPECT_TRUE(world.book.failed.empty()) << world.book.failed[0].message;
  }
}

TEST(GroupShortage, ChargesTheDeathBeforeItOnce) {
  for (const bool starves : {true, false}) {
    WorldOptions options;
    options.restart_limit = 2;
    ReplicaWorld world(options);
    ASSERT_TRUE(world.start());
    for (int death = 0; death < 3; ++death) {
      EXPECT_TRUE(world.book.failed.empty());
      ASSERT_TRUE(world.run_until([&] { return world.engine.group().ready(); }));
      if (starves) {
        world.cluster.starve_next(3);
      } else {
        world.cluster.refuse_respawns(resource_exhausted("fork: no memory"));
      }
      world.cluster.crash(kSecond, SIGKILL);
      world.pass(3 * kPause);
      world.cluster.allow_respawns();
    }
    ASSERT_EQ(world.book.failed.size(), 1U);
    EXPECT_NE(world.book.failed[0].message.find("3 faults within 60"), std::string::npos)
        << world.book.failed[0].message;
  }
}

TEST(GroupShortage, IsTheLastErrorWhileItIsWaitedFor) {
  for (const bool starves : {true, false}) {
    ReplicaWorld world({});
    ASSERT_TRUE(world.start());
    world.tick = false;  // no heartbeat is due
    if (starves) {
      world.cluster.starve(kSecond);
    } else {
      world.cluster.refuse_respawns(resource_exhausted("fork: no memory"));
      world.cluster.crash(kSecond, SIGKILL);
    }
    world.pass(kPause / 2);
    const std::string cause = starves ? "exited with status 75" : "could not be started: fork";
    ASSERT_FALSE(world.book.statuses.empty());
    EXPECT_TRUE(world.book.statuses.back().recovering);
    EXPECT_NE(world.book.statuses.back().last_error.find(cause), std::string::npos)
        << world.book.statuses.back().last_error;
  }
}

// Two such ends of a request that runs alone would condemn it, were they its doing.
TEST(GroupShortage, DuringAStepIsNotTheDoingOfItsSequences) {
  for (const bool answers : {true, false}) {
    ReplicaWorld world({});
    ASSERT_TRUE(world.start());
    world.submit(world.request(1, 20, 20));
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(kSecond, RankOp::kStep); }));
      const Epoch epoch = world.engine.status().epoch;
      if (answers) {
        world.cluster.fail_next(kSecond, RankOp::kStep, resource_exhausted("no scratch"));
      } else {
        world.cluster.starve(kSecond);
      }
      ASSERT_TRUE(world.run_until([&] { return world.engine.status().epoch > epoch; }));
    }
    ASSERT_TRUE(world.run_to_ends());
    EXPECT_EQ(entry(world, 1).tokens.size(), 20U);
    EXPECT_GE(world.time.millis(), 4 * kPause - world.tick_period);
    EXPECT_EQ(world.cluster.count(RankOp::kClear), 0U) << "what was computed is kept";
  }
}

TEST(GroupShortage, ThatARequestBringsAboutForEverEndsIt) {
  WorldOptions options;
  options.restart_limit = 0;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  for (std::uint64_t i = 1; i <= 4; ++i) {
    world.submit(world.request(i, 20, 20));
  }
  const std::uint64_t greedy =
      world.engine.scheduler().find(world.request(3, 1, 1).key)->id.value();
  world.cluster.starve_of_poison();
  world.cluster.poison([greedy](const step::StepItem& item) { return item.sequence == greedy; });
  ASSERT_TRUE(world.run_until([&] { return world.book.open_count() == 0; }, 60 * kPause));
  EXPECT_TRUE(world.book.failed.empty());
  for (const std::uint64_t i : {1U, 2U, 4U}) {
    EXPECT_EQ(entry(world, i).tokens.size(), 20U);
  }
  const wire::TokenUpdate& end = *entry(world, 3).end;
  EXPECT_EQ(static_cast<Code>(end.error_code), Code::kPoisoned);
  EXPECT_NE(end.error_message.find("exited with status 75"), std::string::npos)
      << end.error_message;
}

// The parent waits longer for a replica that says so than for one that fails otherwise.
TEST(GroupShortage, ThatLastsEndsTheGroupByItsName) {
  for (const bool starves : {true, false}) {
    ReplicaWorld world({});
    ASSERT_TRUE(world.start());
    if (starves) {
      world.cluster.starve_next(1000);
    } else {
      world.cluster.refuse_respawns(resource_exhausted("fork: no memory"));
    }
    lose_a_rank(world);
    const Millis begin = world.time.millis();
    ASSERT_TRUE(world.run_until([&] { return world.book.stopped.has_value(); }, 60000));
    EXPECT_GE(world.time.millis() - begin, 5 * kPause - world.tick_period);
    EXPECT_LE(world.time.millis() - begin, 6 * kPause);
    ASSERT_EQ(world.book.failed.size(), 1U);
    EXPECT_EQ(world.book.failed[0].code, static_cast<std::uint32_t>(Code::kResourceExhausted))
        << world.book.failed[0].message;
    EXPECT_EQ(world.cluster.live_ranks(), 0U);
  }
}

// One that is there during the pause and is killed then: nothing is sent to it any more.
TEST(GroupShortage, WaitsBehindItsPauseForARankThatWasKilledMeanwhile) {
  for (const Millis reap : {Millis{300}, 1000 * kPause}) {
    WorldOptions options;
    options.restart_limit = 1;
    ReplicaWorld world(options);
    ASSERT_TRUE(world.start());
    world.cluster.refuse_respawns(resource_exhausted("fork: no memory"));
    world.cluster.crash(kSecond, SIGKILL);
    world.pass(kPause - 50);
    world.cluster.allow_respawns();
    world.cluster.set_reap(reap);
    world.engine.on_stopped_by_signal(kFirst);
    const bool dies = reap < kPause;
    EXPECT_EQ(dies, world.run_until([&] { return world.book.ready.size() == 2; }, kPause));
    EXPECT_EQ(world.cluster.count(RankOp::kHello), dies ? 4U : 2U);
    ASSERT_EQ(world.book.failed.size(), dies ? 0U : 1U);
    if (!dies) {
      EXPECT_EQ(world.book.failed[0].message, "a rank was to end and is not gone");
    }
  }
}

TEST(GroupShortage, IsNoReasonToOutliveAStop) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.cluster.refuse_respawns(resource_exhausted("fork: no memory"));
  lose_a_rank(world);
  EXPECT_FALSE(world.run_until([&] { return entry(world, 1).end.has_value(); }, kPause / 2));
  world.engine.stop(wire::StopReplica{false, 0});
  EXPECT_TRUE(world.run_until([&] { return world.book.stopped.has_value(); }, kPause / 2));
}

// One that a frozen filesystem or a debugger keeps, say: it holds nobody up.
class RankThatDoesNotDie : public ::testing::Test {
 protected:
  static WorldOptions options() {
    WorldOptions result;
    result.restart_limit = 0;
    result.cluster.reap = 1000000;
    return result;
  }
};

TEST_F(RankThatDoesNotDie, EndsAGroupThatHasFailedAllTheSame) {
  ReplicaWorld world(options());
  ASSERT_TRUE(world.start());
  world.cluster.freeze(kSecond);
  world.submit(world.request(1, 20, 20));
  ASSERT_TRUE(world.run_until([&] { return world.book.failed.size() == 1; }, 200000));
  EXPECT_TRUE(world.run_until([&] { return world.book.stopped.has_value(); }, 2000));
}

TEST_F(RankThatDoesNotDie, EndsAGroupThatStopsAllTheSame) {
  ReplicaWorld world(options());
  ASSERT_TRUE(world.start());
  world.cluster.freeze(kSecond);
  world.engine.stop(wire::StopReplica{false, 0});
  EXPECT_TRUE(world.run_until([&] { return world.book.stopped.has_value(); }, 20000));
}

}  // namespace
}  // namespace phalanx::testing
