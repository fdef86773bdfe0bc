// SPDX-License-Identifier: Apache-2.0
// Memory of KV blocks that comes when it is first used, in pieces, or not at all.
#include <csignal>

#include <gtest/gtest.h>

#include "phalanx/engine/sequence.h"

#include "support/replica_world.h"

namespace phalanx::testing {
namespace {

using step::FinishReason;

TEST(KvMemory, IsAskedForWhenBlocksAreFirstUsed) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  EXPECT_EQ(world.kv.backed, 0U) << "a start takes none";
  world.submit(world.request(1, 2 * step::kBlockTokens, 4));
  ASSERT_TRUE(world.run_until([&] { return entry(world, 1).tokens.size() == 2; }));
  EXPECT_EQ(world.kv.backed, 3U);
  ASSERT_TRUE(world.run_to_ends());
  ASSERT_TRUE(world.run_until([&] { return world.kv.backed == 6; }, 4 * 20))
      << "as much again, ahead, a block in each tick";
  const std::uint32_t calls = world.kv.calls;
  world.submit(world.request(2, step::kBlockTokens, 4));
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(world.kv.calls, calls) << "blocks that were used before are used first";
}

TEST(KvMemory, ComesInPiecesWithoutEndingAnything) {
  ReplicaWorld world({});
  world.kv.piece = 1;
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 4 * step::kBlockTokens, 8));
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(entry(world, 1).end->finish, FinishReason::kLength);
  EXPECT_EQ(world.engine.group().epoch(), Epoch(1));
}

TEST(KvMemory, ThatIsNotThereIsAFullPool) {
  ReplicaWorld world({});
  world.kv.available = 4;
  ASSERT_TRUE(world.start());
  for (std::uint64_t i = 1; i <= 4; ++i) {
    world.submit(world.request(i, step::kBlockTokens - 2, 2 * step::kBlockTokens));
  }
  ASSERT_TRUE(world.run_until([&] { return world.engine.scheduler().preemptions() > 0; }));
  EXPECT_EQ(world.engine.scheduler().blocks().limit(), 4U);
  EXPECT_EQ(world.kv.backed, 4U);
  ASSERT_TRUE(world.run_to_ends());
  for (std::uint64_t i = 1; i <= 4; ++i) {
    EXPECT_EQ(entry(world, i).end->finish, FinishReason::kLength);
  }
  EXPECT_EQ(world.kv.backed, 4U);
}

TEST(KvMemory, IsLookedForAgain) {
  ReplicaWorld world({});
  world.kv.available = 2;
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 3 * step::kBlockTokens, 4));
  world.pass(3000);
  EXPECT_TRUE(world.book.open(world.request(1, 1, 1).key));
  EXPECT_EQ(entry(world, 1).tokens.size(), 0U);
  world.kv.available = 100;
  ASSERT_TRUE(world.run_until([&] { return world.book.open_count() == 0; }, 2000));
  EXPECT_EQ(entry(world, 1).end->finish, FinishReason::kLength);
}

TEST(KvMemory, IsNotWaitedForForever) {
  ReplicaWorld world({});
  world.kv.available = 2;
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 3 * step::kBlockTokens, 4));
  world.submit(world.request(2, step::kBlockTokens, 4));
  ASSERT_TRUE(world.run_until([&] { return world.book.open_count() == 0; }, 15000));
  EXPECT_EQ(entry(world, 1).end->finish, FinishReason::kError);
  EXPECT_EQ(entry(world, 1).end->error_code, static_cast<std::uint32_t>(Code::kDeadlineExceeded));
  EXPECT_EQ(entry(world, 2).end->finish, FinishReason::kLength) << "what fits is served";
}

// A sequence that ran a part of the way each time would neither end nor fail.
TEST(KvMemory, IsNotWaitedForWhileTheGroupForms) {
  WorldOptions options;
  options.cluster.reap = 300;
  options.restart_limit = 100;
  ReplicaWorld world(options);
  world.kv.available = 2;
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 3 * step::kBlockTokens, 4));
  world.pass(6000);
  for (int i = 0; i < 20; ++i) {
    world.cluster.crash(RankId(1), SIGKILL);
    world.pass(350);
  }
  EXPECT_TRUE(world.engine.group().ready());
  EXPECT_TRUE(world.book.open(world.request(1, 1, 1).key)) << "no step could have run it";
  world.kv.available = 100;
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(entry(world, 1).end->finish, FinishReason::kLength);
}

TEST(KvMemory, IsNotWaitedForWhileTheLeaderTakesNothing) {
  ReplicaWorld world({});
  world.kv.available = 2;
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 3 * step::kBlockTokens, 4));
  world.pass(100);
  world.cancel(world.request(1, 1, 1).key);
  world.pass(100);
  ASSERT_EQ(world.engine.scheduler().blocks().limit(), 2U);
  world.book.takes_frames = false;
  world.submit(world.request(2, step::kBlockTokens, 4));
  world.pass(15'000);
  world.book.takes_frames = true;
  world.engine.on_wake();
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(entry(world, 2).end->finish, FinishReason::kLength) << "it would have fitted";
}

TEST(KvMemory, OfALongPromptIsThereBeforeItRunsAgain) {
  ReplicaWorld world({});
  world.kv.available = 5;
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 7 * step::kBlockTokens, 4));
  ASSERT_TRUE(world.run_until([&] { return world.engine.scheduler().preemptions() == 1; }));
  ASSERT_TRUE(world.run_until([&] { return world.book.open_count() == 0; }, 15000));
  EXPECT_EQ(entry(world, 1).end->finish, FinishReason::kError);
  EXPECT_EQ(world.engine.scheduler().preemptions(), 1U);
}

TEST(KvMemory, ThatWasGivenBackIsAskedForAnew) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 2 * step::kBlockTokens, 20));
  ASSERT_TRUE(world.run_until([&] { return entry(world, 1).tokens.size() == 5; }));
  const std::uint32_t calls = world.kv.calls;
  world.cluster.crash(RankId(1), SIGSEGV, DeathOrigin::kOwn);
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_GT(world.kv.calls, calls);
  EXPECT_GE(world.kv.backed, 3U);
}

}  // namespace
}  // namespace phalanx::testing
