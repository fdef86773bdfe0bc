// SPDX-License-Identifier: Apache-2.0
// What a replica promises its leader.
#include <csignal>
#include <string>

#include <gtest/gtest.h>

#include "phalanx/step/limits.h"
#include "phalanx/step/sampling.h"
#include "phalanx/wire/limits.h"

#include "support/replica_world.h"

namespace phalanx::testing {
namespace {

using step::FinishReason;
using wire::RankOp;

// Only what came for keys that the book does not know.
class Inbox final : public engine::ReplicaSink {
 public:
  void send(wire::ReplicaMessage message) override {
    if (const auto* batch = std::get_if<wire::TokenBatch>(&message)) {
      updates.insert(updates.end(), batch->updates.begin(), batch->updates.end());
    }
  }
  [[nodiscard]] bool takes() const override { return true; }
  void on_stopped(const Status& /*status*/) override {}
  std::vector<wire::TokenUpdate> updates;
};

TEST(ReplicaEngine, ServesManyAtOnceInOneBatch) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  for (std::uint64_t i = 1; i <= 10; ++i) {
    world.submit(world.request(i, static_cast<std::uint32_t>(10 * i), 10));
    world.expect_equal_ledger();
  }
  EXPECT_EQ(world.engine.status().waiting + world.engine.status().running, 10U);
  ASSERT_TRUE(world.run_to_ends());
  for (std::uint64_t i = 1; i <= 10; ++i) {
    EXPECT_EQ(entry(world, i).tokens.size(), 10U);
    EXPECT_EQ(entry(world, i).end->finish, FinishReason::kLength);
  }
  EXPECT_LT(world.cluster.count(RankOp::kStep), 2U * 70U) << "they were served one by one";
  EXPECT_TRUE(world.engine.scheduler().empty());
}

// Who asks again upon the last token is to find the replica that knows his prompt.
TEST(ReplicaEngine, TellsOfBlocksBeforeTheTokensOfTheirStep) {
  WorldOptions options;
  options.prefix_cache = true;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 64, 1));
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(entry(world, 1).blocks_told, 2U);
}

TEST(ReplicaEngine, AcceptsWorkBeforeItIsReadyAndWhileItRecovers) {
  ReplicaWorld world({});
  world.engine.start();
  world.submit(world.request(1, 20, 10));
  ASSERT_TRUE(world.run_to_ends());
  world.cluster.crash(RankId(1), SIGKILL);
  world.pass(2);
  ASSERT_TRUE(world.engine.status().recovering);
  world.submit(world.request(2, 20, 10));
  ASSERT_TRUE(world.run_to_ends());
}

TEST(ReplicaEngine, IgnoresASecondSubmitOfAKey) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  const wire::Submit submit = world.request(1, 20, 5);
  world.submit(submit);
  world.engine.submit(submit);
  ASSERT_TRUE(world.run_to_ends());
  world.engine.submit(submit);  // and one that comes after the end
  world.pass(100);              // the book complains about whatever comes now
  EXPECT_EQ(entry(world, 1).tokens.size(), 5U);
  EXPECT_TRUE(world.engine.scheduler().empty());
}

TEST(ReplicaEngine, LetsAHigherAttemptReplaceALowerOne) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  const wire::Submit first = world.request(1, 20, 30);
  world.submit(first);
  ASSERT_TRUE(world.run_until([&] { return entry(world, 1).tokens.size() == 4; }));
  wire::Submit second = first;
  second.key.attempt = Attempt(2);
  second.produced_ids = entry(world, 1).tokens;
  world.submit(second);
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(entry(world, 1).end->finish, FinishReason::kCancelled);
  EXPECT_EQ(world.book.at(second.key).tokens.size(), 30U);

  wire::Submit old = world.request(1, 20, 30);
  old.key.attempt = Attempt(0);
  world.submit(old);
  EXPECT_EQ(world.book.at(old.key).end->finish, FinishReason::kCancelled);
}

TEST(ReplicaEngine, FreesACancelledSequenceWithinOneStep) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 40, 100));
  ASSERT_TRUE(world.run_until([&] { return entry(world, 1).tokens.size() == 3; }));
  const StepId in_flight(world.engine.status().last_step.value() + 1);
  world.cancel(world.request(1, 1, 1).key);
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(entry(world, 1).end->finish, FinishReason::kCancelled);
  EXPECT_LE(world.engine.status().last_step, in_flight);
  EXPECT_EQ(world.engine.status().kv_blocks_free, world.engine.status().kv_blocks_total);
}

TEST(ReplicaEngine, EndsASequenceWithAFaultOfItsOwnAndNothingElse) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  wire::Submit faulty = world.request(2, 20, 10);
  faulty.sampling.seed = CellRunner::kFaultySeed;
  world.submit(world.request(1, 30, 40));
  world.submit(faulty);
  world.submit(world.request(3, 10, 40));
  ASSERT_TRUE(world.run_to_ends());
  const wire::TokenUpdate& end = *entry(world, 2).end;
  EXPECT_EQ(end.finish, FinishReason::kError);
  EXPECT_EQ(end.error_code, static_cast<std::uint32_t>(Code::kInvalidArgument));
  EXPECT_EQ(entry(world, 2).tokens.size(), 4U) << "those before the fault";
  EXPECT_EQ(entry(world, 1).end->finish, FinishReason::kLength);
  EXPECT_EQ(entry(world, 3).end->finish, FinishReason::kLength);
  EXPECT_EQ(world.engine.status().epoch, Epoch(1)) << "no rank was at fault";
  EXPECT_EQ(world.engine.status().drains, 0U);
  EXPECT_EQ(world.engine.status().kv_blocks_free, world.engine.status().kv_blocks_total);
}

// As when every client leaves at once: more ends than one frame may tell.
TEST(ReplicaEngine, TellsAnyNumberOfEndsInFramesThatTheLeaderTakes) {
  constexpr std::uint32_t kRequests = step::kMaxSequencesPerStep + 900;
  WorldOptions options;
  options.max_waiting = kRequests;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  for (std::uint64_t i = 1; i <= kRequests; ++i) {
    world.submit(world.request(i, 20, 10));  // the first begins a step; the others wait
  }
  for (std::uint64_t i = 1; i <= kRequests; ++i) {
    world.cancel(world.request(i, 1, 1).key);
  }
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_TRUE(world.engine.scheduler().empty());
}

TEST(ReplicaEngine, RestsWhileTheLeaderTakesNothing) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 40, 100));
  ASSERT_TRUE(world.run_until([&] { return entry(world, 1).tokens.size() == 3; }));
  world.book.takes_frames = false;
  world.pass(50);  // what is under way ends
  const std::size_t steps = world.cluster.count(RankOp::kStep);
  const std::size_t heartbeats = world.book.statuses.size() + world.book.holdings.size();
  world.submit(world.request(2, 20, 10));
  world.pass(60'000);
  EXPECT_EQ(world.cluster.count(RankOp::kStep), steps);
  EXPECT_EQ(world.book.statuses.size() + world.book.holdings.size(), heartbeats);
  world.cluster.crash(RankId(1), SIGKILL);
  world.pass(1000);
  EXPECT_EQ(world.cluster.count(RankOp::kStep), steps);
  world.book.takes_frames = true;
  world.engine.on_wake();
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(entry(world, 1).end->finish, FinishReason::kLength);
  EXPECT_EQ(entry(world, 2).end->finish, FinishReason::kLength);
}

TEST(ReplicaEngine, EndsAKeyWhoseSubmitCannotBeRead) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  const wire::Submit unread = world.request(1, 20, 10);
  world.book.book(unread);
  world.engine.refuse_submit(unread.key, invalid_argument("sampling.top_p: expected more"));
  const wire::TokenUpdate& end = *entry(world, 1).end;
  EXPECT_EQ(end.finish, FinishReason::kError);
  EXPECT_EQ(end.error_code, static_cast<std::uint32_t>(Code::kInvalidArgument));
  EXPECT_EQ(end.error_message, "sampling.top_p: expected more");
}

TEST(ReplicaEngine, AnswersRefusalsAndUnknownKeysAtOnce) {
  VirtualTime time;
  FaultyTransport transport;
  ClusterOptions cluster_options;
  RankCluster cluster(cluster_options, transport, time);
  Inbox inbox;
  FakeKvMemory kv;
  engine::ReplicaOptions options;
  options.scheduler.limits.max_model_len = 64;
  options.scheduler.limits.max_num_seqs = 2;
  options.scheduler.limits.max_num_batched_tokens = 16;
  options.scheduler.limits.kv_blocks = 8;
  options.scheduler.max_waiting = 1;
  options.scheduler.vocab_size = 100;
  options.group.ranks = 2;
  FakeWakeUp wake_up(time);
  engine::ReplicaEngine engine(options, cluster, cluster.ring(RankId(0)), kv, inbox, wake_up, time);

  wire::Submit submit;
  submit.key = {RequestId(1), ChoiceIndex(0), Attempt(1)};
  submit.prompt_ids.assign(64, 1);
  engine.submit(submit);
  ASSERT_EQ(inbox.updates.size(), 1U);
  EXPECT_EQ(inbox.updates[0].error_code, static_cast<std::uint32_t>(Code::kInvalidArgument));
  EXPECT_EQ(inbox.updates[0].error_message,
            "the prompt has 64 tokens; max_model_len 64 leaves room for 63");

  submit.prompt_ids.assign(5, 1);
  submit.key.request = RequestId(2);
  engine.submit(submit);
  submit.key.request = RequestId(3);
  engine.submit(submit);
  ASSERT_EQ(inbox.updates.size(), 2U);
  EXPECT_EQ(inbox.updates[1].error_code, static_cast<std::uint32_t>(Code::kResourceExhausted));

  engine.cancel({{RequestId(9), ChoiceIndex(0), Attempt(1)}});
  ASSERT_EQ(inbox.updates.size(), 3U);
  EXPECT_EQ(inbox.updates[2].finish, FinishReason::kCancelled);
}

TEST(ReplicaEngine, BeatsWhileItsLoopTurns) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.pass(1000);
  const std::size_t idle = world.book.statuses.size();
  world.pass(1000);
  EXPECT_EQ(world.book.statuses.size() - idle, 5U) << "it has nothing to do";
  world.submit(world.request(1, 20, 20));
  world.cluster.freeze(kSecond);
  world.pass(20);
  const std::size_t busy = world.book.statuses.size();
  world.pass(100);
  EXPECT_EQ(world.book.statuses.size() - busy, 1U) << "a step is under way";
}

TEST(ReplicaEngine, WhatIsComputedForTheFirstTimeWaitsNoMore) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.cluster.freeze(kSecond);
  world.submit(world.request(1, 20, 20));
  world.submit(world.request(2, 20, 20));
  EXPECT_EQ(world.engine.status().running, 1U);
  EXPECT_EQ(world.engine.status().waiting, 1U) << "it came behind the beginning of the step";
  world.pass(1500);
  EXPECT_EQ(world.engine.status().waiting, 0U);
}

TEST(ReplicaEngine, TicksRarelyOnlyWhileNothingIsToBeDone) {
  ReplicaWorld world({});
  EXPECT_EQ(world.engine.tick_periods(), 1U) << "it is not ready";
  ASSERT_TRUE(world.start());
  world.pass(1000);
  EXPECT_EQ(world.engine.tick_periods(), 10U);
  world.submit(world.request(1, 20, 20));
  EXPECT_EQ(world.engine.tick_periods(), 1U);
  ASSERT_TRUE(world.run_to_ends());
  world.pass(1000);
  EXPECT_EQ(world.engine.tick_periods(), 10U);
  world.cluster.crash(kFirst, SIGKILL);
  ASSERT_TRUE(world.run_until([&] { return world.engine.tick_periods() == 1; }, 5));
  ASSERT_TRUE(world.run_until([&] { return world.engine.group().ready(); }));
  world.engine.stop(wire::StopReplica{true, 60000});
  EXPECT_EQ(world.engine.tick_periods(), 1U) << "a stop has a deadline";
}

TEST(ReplicaEngine, TellsPartByPartWhatItHolds) {
  constexpr std::uint64_t kRequests = wire::kMaxHeldKeys + 10;
  WorldOptions options;
  options.max_waiting = kRequests;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  for (std::uint64_t i = 1; i <= kRequests; ++i) {
    world.submit(world.request(i, 20, 10));
  }
  const std::vector<wire::ReplicaHolding>& told = world.book.holdings;
  const std::size_t before = told.size();
  const auto beat = [&] {
    for (int i = 0; i < 5; ++i) {
      world.engine.on_tick(1);  // no time passes: no step ends
    }
  };
  beat();
  beat();
  ASSERT_EQ(told.size(), before + 2);
  EXPECT_EQ(told[before].effects, kRequests);
  EXPECT_EQ(told[before].after, wire::SequenceKey{});
  EXPECT_FALSE(told[before].to_end);
  ASSERT_EQ(told[before].keys.size(), wire::kMaxHeldKeys);
  EXPECT_EQ(told[before].keys.front(), world.request(1, 1, 1).key);
  EXPECT_EQ(told[before + 1].after, told[before].keys.back());
  EXPECT_TRUE(told[before + 1].to_end);
  EXPECT_EQ(told[before + 1].keys.size(), 10U);

  for (std::uint64_t i = 1; i <= kRequests; ++i) {
    world.cancel(world.request(i, 1, 1).key);
  }
  beat();
  EXPECT_EQ(told.back().effects, 2 * kRequests);
  EXPECT_TRUE(told.back().keys.empty()) << "what is cancelled is about to leave";
  ASSERT_TRUE(world.run_to_ends());
}

TEST(ReplicaEngine, TellsTheLeaderAtOnceThatItRecovers) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 20, 30));
  ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(RankId(0), RankOp::kStep); }));
  const std::size_t before = world.book.statuses.size();
  world.tick = false;  // no heartbeat is due
  world.cluster.crash(RankId(1), SIGKILL);
  ASSERT_TRUE(world.run_until([&] { return world.book.ready.size() == 2; }));
  ASSERT_GT(world.book.statuses.size(), before + 1);
  EXPECT_TRUE(world.book.statuses[before].recovering);
  EXPECT_FALSE(world.book.statuses.back().recovering);
  EXPECT_NE(world.book.statuses.back().last_error.find("rank 1"), std::string::npos);
}

TEST(ReplicaStop, DrainsWhatIsThereAndRefusesTheRest) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 20, 30));
  world.pass(20);
  world.engine.stop(wire::StopReplica{true, 60000});
  world.submit(world.request(2, 20, 30));
  ASSERT_TRUE(world.run_until([&] { return world.book.stopped.has_value(); }));
  EXPECT_TRUE(*world.book.stopped);
  EXPECT_EQ(entry(world, 1).tokens.size(), 30U);
  EXPECT_EQ(entry(world, 2).end->error_code, static_cast<std::uint32_t>(Code::kUnavailable));
  EXPECT_EQ(world.cluster.kills(), 0U) << "a drained rank leaves by itself";
  EXPECT_EQ(world.cluster.live_ranks(), 0U);
}

TEST(ReplicaStop, EndsTheRestAtItsDeadline) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 20, 200));
  world.pass(20);
  world.engine.stop(wire::StopReplica{true, 100});
  const Millis at = world.time.millis();
  ASSERT_TRUE(world.run_until([&] { return world.book.stopped.has_value(); }));
  EXPECT_LE(world.time.millis() - at, 250);
  EXPECT_EQ(entry(world, 1).end->error_code, static_cast<std::uint32_t>(Code::kUnavailable));
  EXPECT_EQ(world.cluster.live_ranks(), 0U);
}

TEST(ReplicaStop, WorksInEveryState) {
  for (Millis after = 0; after < 60; ++after) {
    ReplicaWorld world({});
    world.engine.start();
    world.submit(world.request(1, 20, 3));
    world.pass(after);
    if (after % 2 == 0) {
      world.cluster.crash(RankId(1), SIGKILL);
      world.pass(after % 7);
    }
    world.engine.stop(wire::StopReplica{false, 0});
    ASSERT_TRUE(world.run_until([&] { return world.book.stopped.has_value(); })) << after;
    EXPECT_EQ(world.cluster.live_ranks(), 0U) << after;
    EXPECT_TRUE(world.book.open_count() == 0 || !world.book.failed.empty()) << after;
  }
}

// One rank has answered the ping and dies, the other one has not; in between comes the stop.
TEST(ReplicaStop, RepairsNoRankThatDiesBehindItsAnswer) {
  WorldOptions options;
  options.ping_periods = 20;
  options.restart_limit = 0;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  bool slow = true;
  world.transport.judge_with([&](const Passage& passage) {
    Treatment treatment;
    if (passage.direction == Direction::kToReplica && passage.rank == RankId(0) && slow) {
      treatment.delay = 50;
      slow = false;
    }
    return treatment;
  });
  ASSERT_TRUE(world.run_until([&] { return !slow; }));
  ASSERT_EQ(world.cluster.count(RankOp::kPing), 2U);
  world.pass(2);
  world.cluster.crash(RankId(1), SIGKILL);
  world.pass(10);
  world.engine.stop(wire::StopReplica{false, 0});
  ASSERT_TRUE(world.run_until([&] { return world.book.stopped.has_value(); }));
  EXPECT_TRUE(*world.book.stopped) << world.book.stopped->error().message();
  EXPECT_TRUE(world.book.failed.empty());
  EXPECT_EQ(world.cluster.spawns(), 2U);
}

TEST(ReplicaStop, BeforeTheStartNeedsNoRanks) {
  ReplicaWorld world({});
  world.engine.stop(wire::StopReplica{true, 1000});
  ASSERT_TRUE(world.book.stopped.has_value());
  EXPECT_EQ(world.cluster.spawns(), 0U);
}

}  // namespace
}  // namespace phalanx::testing
