// SPDX-License-Identifier: Apache-2.0
// Requests that end the ranks which compute them, and deaths that are no request's doing.
#include <csignal>
#include <string>

#include <gtest/gtest.h>

#include "support/replica_world.h"

namespace phalanx::testing {
namespace {

using step::FinishReason;
using wire::RankOp;

WorldOptions wide() {
  WorldOptions options;
  options.cluster.max_num_seqs = 8;
  options.restart_limit = 2;
  return options;
}

// Sequences are numbered in the order of their arrival, behind that of the self-test.
void poison(ReplicaWorld& world, std::set<std::uint64_t> numbers, std::uint32_t from_position = 0) {
  std::set<std::uint64_t> ids;
  for (const std::uint64_t number : numbers) {
    ids.insert(world.engine.scheduler().find(world.request(number, 1, 1).key)->id.value());
  }
  world.cluster.poison([ids, from_position](const step::StepItem& item) {
    return ids.contains(item.sequence) && item.start + item.count > from_position;
  });
}

void expect_condemned(const ReplicaWorld& world, std::uint64_t number) {
  ASSERT_TRUE(entry(world, number).end);
  EXPECT_EQ(entry(world, number).end->finish, FinishReason::kError);
  EXPECT_EQ(static_cast<Code>(entry(world, number).end->error_code), Code::kPoisoned);
}

TEST(Poison, EndsItselfAndNobodyElse) {
  for (const std::uint64_t culprit : {1U, 4U, 8U}) {
    ReplicaWorld world(wide());
    ASSERT_TRUE(world.start());
    for (std::uint64_t i = 1; i <= 8; ++i) {
      world.submit(world.request(i, static_cast<std::uint32_t>(5 + 3 * i), 10));
    }
    poison(world, {culprit});
    ASSERT_TRUE(world.run_to_ends()) << world.engine.status().last_error;
    for (std::uint64_t i = 1; i <= 8; ++i) {
      if (i == culprit) {
        expect_condemned(world, i);
      } else {
        EXPECT_EQ(entry(world, i).tokens.size(), 10U);
      }
    }
    EXPECT_TRUE(world.book.failed.empty()) << "a blamed death costs no intensity";
    EXPECT_GE(world.engine.status().epoch.value(), 3U);
    EXPECT_LE(world.engine.status().epoch.value(), 6U) << "eight are halved three times";
    world.expect_equal_ledger();
  }
}

TEST(Poison, InTheMiddleOfAnAnswerKeepsWhatCameBefore) {
  ReplicaWorld world(wide());
  ASSERT_TRUE(world.start());
  for (std::uint64_t i = 1; i <= 5; ++i) {
    world.submit(world.request(i, 20, 40));
  }
  poison(world, {3}, 30);
  ASSERT_TRUE(world.run_to_ends());
  expect_condemned(world, 3);
  EXPECT_EQ(entry(world, 3).tokens.size(), 11U) << "up to the token at position 30";
  EXPECT_EQ(entry(world, 5).tokens.size(), 40U);
  EXPECT_TRUE(world.book.failed.empty());
}

TEST(Poison, ManyOfThemEndTogether) {
  ReplicaWorld world(wide());
  ASSERT_TRUE(world.start());
  for (std::uint64_t i = 1; i <= 20; ++i) {
    world.submit(world.request(i, 10, 5));
  }
  poison(world, {2, 3, 5, 7, 11, 13, 17, 19});
  ASSERT_TRUE(world.run_to_ends());
  for (std::uint64_t i = 1; i <= 20; ++i) {
    const bool poisoned = entry(world, i).end->finish == FinishReason::kError;
    EXPECT_EQ(poisoned, std::set<std::uint64_t>({2, 3, 5, 7, 11, 13, 17, 19}).contains(i)) << i;
  }
  EXPECT_TRUE(world.book.failed.empty());
}

TEST(Poison, ThatEndsInAnErrorOrAHangIsFoundLikeACrash) {
  for (const bool hang : {false, true}) {
    ReplicaWorld world(wide());
    ASSERT_TRUE(world.start());
    world.submit(world.request(1, 20, 40));
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(kFirst, RankOp::kStep); }));
      if (hang) {
        world.cluster.freeze(kSecond);
      } else {
        world.cluster.fail_next(kSecond, RankOp::kStep, internal_error("a defect"));
      }
      const Epoch now = world.engine.status().epoch;
      ASSERT_TRUE(world.run_until([&] { return world.engine.status().epoch > now; }));
    }
    ASSERT_TRUE(world.run_to_ends());
    expect_condemned(world, 1);
  }
}

TEST(Poison, IsNotWhoWasBesideAnUnexplainedDeath) {
  ReplicaWorld world(wide());
  ASSERT_TRUE(world.start());
  for (std::uint64_t i = 1; i <= 4; ++i) {
    world.submit(world.request(i, 20, 60));
  }
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(world.run_until([&] { return world.engine.scheduler().running() == 4; }));
    ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(kFirst, RankOp::kStep); }));
    world.cluster.crash(kFirst, SIGSEGV, DeathOrigin::kOwn);
    world.pass(300);
  }
  ASSERT_TRUE(world.run_to_ends());
  for (std::uint64_t i = 1; i <= 4; ++i) {
    EXPECT_EQ(entry(world, i).tokens.size(), 60U);
  }
}

// Not because it has the longest prompt: what was computed when somebody died has passed when it is
// computed again, and the rest of the prompt is everybody's time.
TEST(Poison, IsNotLookedForInTheRestOfAPrompt) {
  WorldOptions options = wide();
  options.cluster.max_num_batched_tokens = 32;
  options.cluster.max_model_len = 1024;
  options.cluster.kv_blocks = 256;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 20, 60));
  ASSERT_TRUE(world.run_until([&] { return entry(world, 1).tokens.size() == 3; }));
  world.submit(world.request(2, 900, 4));
  ASSERT_TRUE(world.run_until([&] { return world.engine.scheduler().running() == 2; }));
  ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(kFirst, RankOp::kStep); }));
  world.cluster.fail_next(kSecond, RankOp::kStep, internal_error("a defect, once"));
  const Epoch before = world.engine.status().epoch;
  ASSERT_TRUE(world.run_until([&] { return world.engine.status().epoch > before; }));
  const std::size_t tokens = entry(world, 1).tokens.size();
  ASSERT_TRUE(world.run_until([&] { return entry(world, 1).tokens.size() >= tokens + 6; }));
  EXPECT_TRUE(entry(world, 2).tokens.empty()) << "its prompt takes many more steps";
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(entry(world, 1).tokens.size(), 60U);
  EXPECT_EQ(entry(world, 2).tokens.size(), 4U);
}

// A machine in need may hang twice in the life of one long stream that happens to be alone.
TEST(Poison, IsNotWhoGotFarBetweenTwoDeaths) {
  WorldOptions options = wide();
  options.cluster.max_model_len = 1024;
  options.restart_limit = 10;  // each is held against the group
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 20, 300));
  for (int i = 0; i < 3; ++i) {
    const std::size_t tokens = entry(world, 1).tokens.size();
    ASSERT_TRUE(world.run_until([&] { return entry(world, 1).tokens.size() > tokens + 80; }));
    ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(kFirst, RankOp::kStep); }));
    world.cluster.fail_next(kSecond, RankOp::kStep, internal_error("a defect"));
    const Epoch now = world.engine.status().epoch;
    ASSERT_TRUE(world.run_until([&] { return world.engine.status().epoch > now; }));
    if (i == 0) {
      EXPECT_TRUE(world.engine.status().searching);
    }
  }
  ASSERT_TRUE(world.run_to_ends()) << world.engine.status().last_error;
  EXPECT_EQ(entry(world, 1).tokens.size(), 300U);
  EXPECT_FALSE(world.engine.status().searching);
}

TEST(Poison, UnexplainedDeathsCountAgainstTheGroup) {
  ReplicaWorld world(wide());  // two restarts are allowed
  ASSERT_TRUE(world.start());
  for (std::uint64_t i = 1; i <= 4; ++i) {
    world.submit(world.request(i, 20, 200));
  }
  for (int i = 0; i < 4 && world.book.failed.empty(); ++i) {
    ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(kFirst, RankOp::kStep); }));
    world.cluster.crash(kFirst, SIGSEGV, DeathOrigin::kOwn);
    world.pass(400);
  }
  EXPECT_EQ(world.book.failed.size(), 1U);
}

TEST(Poison, IsNoSignalThatSomebodySent) {
  WorldOptions options = wide();
  options.restart_limit = 100;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 20, 60));  // alone all the time
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(kFirst, RankOp::kStep); }));
    world.cluster.crash(kFirst, i % 2 == 0 ? SIGSEGV : SIGKILL);
    const Epoch now = world.engine.status().epoch;
    ASSERT_TRUE(world.run_until([&] { return world.engine.status().epoch > now; }));
  }
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(entry(world, 1).tokens.size(), 60U);
}

TEST(Poison, IsNoStopWhetherItsNoticeCameOrNot) {
  for (const bool noticed : {true, false}) {
    WorldOptions options = wide();
    options.restart_limit = 100;
    ReplicaWorld world(options);
    ASSERT_TRUE(world.start());
    world.submit(world.request(1, 20, 40));
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(kFirst, RankOp::kStep); }));
      world.cluster.stop(kSecond);
      if (noticed) {
        world.engine.on_stopped_by_signal(kSecond);
      }
      const Epoch now = world.engine.status().epoch;
      ASSERT_TRUE(world.run_until([&] { return world.engine.status().epoch > now; }));
    }
    ASSERT_TRUE(world.run_to_ends());
    EXPECT_EQ(entry(world, 1).tokens.size(), 40U);
  }
}

TEST(Poison, WaitsForRoomThatOthersHold) {
  WorldOptions options = wide();
  options.cluster.kv_blocks = 8;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  for (std::uint64_t i = 1; i <= 6; ++i) {
    world.submit(world.request(i, 60, 60));
  }
  poison(world, {2}, 80);
  ASSERT_TRUE(world.run_to_ends()) << world.engine.status().last_error;
  expect_condemned(world, 2);
  EXPECT_EQ(entry(world, 6).tokens.size(), 60U);
  EXPECT_EQ(world.engine.scheduler().blocks().free(), world.engine.status().kv_blocks_total);
}

TEST(Poison, ThatLeavesIsForgotten) {
  ReplicaWorld world(wide());
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 20, 40));
  world.submit(world.request(2, 20, 40));
  poison(world, {1});
  ASSERT_TRUE(world.run_until([&] { return world.engine.status().epoch > Epoch(1); }));
  world.cancel(world.request(1, 1, 1).key);
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(entry(world, 1).end->finish, FinishReason::kCancelled);
  EXPECT_EQ(entry(world, 2).tokens.size(), 40U);
}

}  // namespace
}  // namespace phalanx::testing
