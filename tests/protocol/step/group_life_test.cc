// SPDX-License-Identifier: Apache-2.0
// The life of a rank group, as a replica lives it: how it starts, what each kind of death costs,
// what is too much, and how it ends.
#include <csignal>
#include <string>

#include <gtest/gtest.h>

#include "phalanx/obs/log.h"
#include "phalanx/wire/codec.h"

#include "support/replica_world.h"

namespace phalanx::testing {
namespace {

using engine::RankGroup;
using wire::RankOp;

std::string failure_of(ReplicaWorld& world) {
  world.engine.start();
  EXPECT_TRUE(world.run_until([&] { return world.book.stopped.has_value(); }));
  EXPECT_EQ(world.book.failed.size(), 1U) << "the cause is told once";
  EXPECT_EQ(world.cluster.live_ranks(), 0U) << "a failed start leaves a process behind";
  EXPECT_TRUE(world.book.ready.empty());
  return world.book.failed.empty() ? "" : world.book.failed[0].message;
}

TEST(GroupStart, ProvesItselfBeforeItIsReady) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  for (const RankOp op : {RankOp::kHello, RankOp::kInit, RankOp::kSanity, RankOp::kAttach}) {
    EXPECT_EQ(world.cluster.count(op), 2U);
  }
  EXPECT_EQ(world.cluster.count(RankOp::kStep), 2U) << "the self-test";
  ASSERT_EQ(world.book.ready.size(), 1U);
  EXPECT_EQ(world.book.ready[0].epoch, Epoch(1));
  EXPECT_EQ(world.book.ready[0].numerics_fingerprint, 22U);
  EXPECT_EQ(world.engine.status().ranks[1].state, wire::RankState::kReady);
  EXPECT_EQ(world.engine.status().ranks[1].incarnation, Incarnation(1));
}

TEST(GroupStart, FailsOnceWithTheCause) {
  for (const RankOp op : {RankOp::kHello, RankOp::kInit, RankOp::kSanity, RankOp::kStep}) {
    ReplicaWorld world({});
    world.engine.start();
    world.cluster.fail_next(kSecond, op, resource_exhausted("no room for the table"));
    ASSERT_TRUE(world.run_until([&] { return world.book.stopped.has_value(); }));
    ASSERT_EQ(world.book.failed.size(), 1U);
    EXPECT_NE(world.book.failed[0].message.find("rank 1: resource_exhausted: no room"),
              std::string::npos)
        << world.book.failed[0].message;
    EXPECT_EQ(world.book.failed[0].code, static_cast<std::uint32_t>(Code::kResourceExhausted));
    EXPECT_EQ(world.cluster.spawns(), 2U) << "a failed start is not repeated";
    EXPECT_EQ(world.cluster.live_ranks(), 0U);
  }
}

TEST(GroupStart, FailsWhenARankExitsAtOnce) {
  ReplicaWorld world({});
  world.engine.start();
  world.cluster.exit(kSecond, 66);
  ASSERT_TRUE(world.run_until([&] { return world.book.stopped.has_value(); }));
  ASSERT_EQ(world.book.failed.size(), 1U);
  EXPECT_NE(world.book.failed[0].message.find("exited with status 66"), std::string::npos)
      << world.book.failed[0].message;
  EXPECT_EQ(world.cluster.spawns(), 2U) << "a failed start is not repeated";
  EXPECT_EQ(world.cluster.live_ranks(), 0U);
}

TEST(GroupStart, FailsWhenNoProcessCanBeMade) {
  ReplicaWorld world({});
  world.cluster.refuse_respawns(resource_exhausted("fork: no memory"));
  EXPECT_EQ(failure_of(world), "rank 0 could not be started: fork: no memory");
}

TEST(GroupStart, RefusesARankOfAnotherBootBuildOrArithmetic) {
  {
    ReplicaWorld world({});
    world.cluster.set_secret(78);
    EXPECT_NE(failure_of(world).find("rank 0 does not know the secret"), std::string::npos);
  }
  {
    ReplicaWorld world({});
    world.cluster.set_identity(kSecond, {12, 22});
    EXPECT_NE(failure_of(world).find("rank 1 has another table of tasks"), std::string::npos);
  }
  {
    ReplicaWorld world({});
    world.cluster.set_identity(kSecond, {11, 23});
    EXPECT_NE(failure_of(world).find("rank 1 computes with another numerics"), std::string::npos);
  }
}

TEST(GroupStart, FailsWhenARankNeverConnects) {
  WorldOptions options;
  options.cluster.connect = 1000000;
  ReplicaWorld world(options);
  EXPECT_NE(failure_of(world).find("it takes no command"), std::string::npos);
}

TEST(GroupDeath, CostsNoKvWhenTheRankWasKilledFromOutside) {
  for (const int signal : {SIGTERM, SIGSEGV}) {
    ReplicaWorld world({});
    ASSERT_TRUE(world.start());
    world.submit(world.request(1, 100, 20));
    ASSERT_TRUE(world.run_until([&] { return entry(world, 1).tokens.size() == 3; }));
    world.cluster.crash(kSecond, signal);
    ASSERT_TRUE(world.run_until([&] { return world.book.ready.size() == 2; }));
    EXPECT_EQ(entry(world, 1).to_compute, 0U);
    world.expect_equal_ledger();
    EXPECT_EQ(world.cluster.count(RankOp::kClear), 0U);
    ASSERT_TRUE(world.run_to_ends());
    EXPECT_EQ(entry(world, 1).tokens.size(), 20U);
    const wire::ReplicaStatus status = world.engine.status();
    EXPECT_EQ(status.ranks[0].restarts, 0U);
    EXPECT_EQ(status.ranks[1].restarts, 1U);
    EXPECT_EQ(status.ranks[1].incarnation, Incarnation(2));
    EXPECT_NE(status.ranks[1].last_error.find("signal " + std::to_string(signal)),
              std::string::npos);
  }
}

TEST(GroupDeath, CostsTheKvWhenTheRankMayHaveWrittenAnywhere) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS}) {
    ReplicaWorld world({});
    ASSERT_TRUE(world.start());
    world.submit(world.request(1, 100, 20));
    ASSERT_TRUE(world.run_until([&] { return entry(world, 1).tokens.size() == 3; }));
    world.cluster.crash(kFirst, signal, DeathOrigin::kOwn);
    ASSERT_TRUE(world.run_until([&] { return world.cluster.count(RankOp::kClear) == 2; }));
    EXPECT_GE(entry(world, 1).to_compute, 100U) << "prompt and produced, all anew";
    world.expect_equal_ledger();
    ASSERT_TRUE(world.run_to_ends());
    EXPECT_EQ(entry(world, 1).tokens.size(), 20U);
  }
}

TEST(GroupDeath, AfterTheAnswerConfirmsTheStepAndThenRecovers) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 20, 4));
  ASSERT_TRUE(world.run_until([&] { return entry(world, 1).tokens.size() == 3; }));
  // Rank 1 has answered the last step; rank 0's answer takes its time. In between rank 1 dies.
  const StepId before = world.engine.status().last_step;
  bool slow = true;
  world.transport.judge_with([&](const Passage& passage) {
    Treatment treatment;
    if (passage.direction == Direction::kToReplica && passage.rank == kFirst && slow) {
      treatment.delay = 15;
      slow = false;
    }
    return treatment;
  });
  ASSERT_TRUE(world.run_until([&] { return !slow; }));
  world.pass(4);
  world.cluster.crash(kSecond, SIGKILL);
  ASSERT_TRUE(world.run_until([&] { return world.book.ready.size() == 2; }));
  EXPECT_EQ(world.engine.status().drains, 0U) << "the step was complete";
  EXPECT_GT(world.engine.status().last_step, before);
  ASSERT_TRUE(world.run_to_ends());
}

// The other one is freed by the abort word, and its answer comes before the death is known.
TEST(GroupDeath, AfterTheAnswerIsOneFaultAndNotTwo) {
  int seen = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    WorldOptions options;
    options.restart_limit = 1;
    options.cluster.reap = 20;
    options.cluster.seed = seed;
    ReplicaWorld world(options);
    ASSERT_TRUE(world.start());
    bool answered = false;
    world.transport.judge_with([&](const Passage& passage) {
      if (passage.direction == Direction::kToReplica && passage.rank == kSecond && !answered &&
          world.cluster.executing(kFirst, RankOp::kStep)) {
        answered = true;
        world.cluster.freeze(kFirst);
      }
      return Treatment{};
    });
    world.submit(world.request(1, 20, 1));  // one step, and none is sent behind it
    if (!world.run_until([&] { return answered; }, 100)) {
      continue;  // the first one was the faster
    }
    ++seen;
    world.pass(3);
    world.cluster.crash(kSecond, SIGKILL);
    world.pass(2);
    world.cluster.raise_abort();  // as whoever watches the lifeline does
    world.cluster.thaw(kFirst);
    ASSERT_TRUE(world.run_to_ends()) << world.engine.status().last_error;
    EXPECT_EQ(entry(world, 1).tokens.size(), 1U);
    EXPECT_EQ(world.engine.status().epoch, Epoch(2));
    EXPECT_TRUE(world.book.failed.empty());
  }
  EXPECT_GT(seen, 2);
}

TEST(GroupDeath, DuringRecoveryStartsItAnew) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 20, 20));
  ASSERT_TRUE(world.run_until([&] { return entry(world, 1).tokens.size() == 3; }));
  world.cluster.crash(kSecond, SIGKILL);
  for (const RankOp op : {RankOp::kInit, RankOp::kSanity}) {
    ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(kFirst, op); }));
    world.cluster.crash(kFirst, SIGKILL);
    ASSERT_TRUE(world.run_until([&] { return !world.cluster.executing(kFirst, op); }));
  }
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(world.engine.status().epoch, Epoch(4));
  EXPECT_EQ(entry(world, 1).tokens.size(), 20U);
}

// The ranks of a replica that has failed take their time to go; meanwhile it is mute.
TEST(GroupDeath, NothingFollowsTheWordThatAReplicaHasFailed) {
  WorldOptions options;
  options.restart_limit = 0;
  options.cluster.reap = 500;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  world.cluster.crash(kFirst, SIGKILL);
  ASSERT_TRUE(world.run_until([&] { return world.book.failed.size() == 1; }, 2000));
  const std::size_t statuses = world.book.statuses.size();
  world.submit(world.request(1, 20, 20));
  world.pass(400);
  EXPECT_EQ(world.book.statuses.size(), statuses) << "a heartbeat of a replica that has failed";
  EXPECT_EQ(world.book.open_count(), 1U) << "the leader has moved it";
  ASSERT_TRUE(world.run_until([&] { return world.book.stopped.has_value(); }, 2000));
}

TEST(GroupDeath, OfAnIdleRankIsRepairedWithoutBeingAsked) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.cluster.crash(kFirst, SIGKILL);
  ASSERT_TRUE(world.run_until([&] { return world.book.ready.size() == 2; }, 200));
  EXPECT_TRUE(world.engine.group().ready());
}

// Its lifeline tells first that it dies, its end tells of what.
TEST(GroupDeath, OfAnIdleRankIsToldWithWhatKilledIt) {
  WorldOptions options;
  options.restart_limit = 0;
  for (const bool is_final : {false, true}) {
    ReplicaWorld world(is_final ? options : WorldOptions{});
    ASSERT_TRUE(world.start());
    world.cluster.crash(kFirst, SIGKILL);
    ASSERT_TRUE(world.run_until(
        [&] { return world.book.ready.size() == 2 || world.book.stopped.has_value(); }, 200));
    const wire::ReplicaStatus& status = world.book.statuses.back();
    EXPECT_EQ(status.last_error, "rank 0: unavailable: it died: killed by signal 9");
    EXPECT_EQ(status.ranks[0].last_error, "unavailable: it died: killed by signal 9");
    if (is_final) {
      ASSERT_EQ(world.book.failed.size(), 1U);
      EXPECT_NE(world.book.failed[0].message.find("signal 9"), std::string::npos)
          << world.book.failed[0].message;
    }
  }
}

TEST(GroupDeath, IsLoggedWithWhatKilledTheRankAndNotWithItsLifeline) {
  for (const bool in_step : {false, true}) {
    ReplicaWorld world({});
    ASSERT_TRUE(world.start());
    if (in_step) {
      world.submit(world.request(1, 20, 20));
      ASSERT_TRUE(world.run_until([&] { return entry(world, 1).tokens.size() == 3; }));
    }
    obs::set_log_level(obs::LogLevel::kWarn);  // until the next world
    ::testing::internal::CaptureStderr();
    world.cluster.crash(kFirst, SIGKILL);
    const bool formed = world.run_until([&] { return world.book.ready.size() == 2; }, 200);
    const std::string log = ::testing::internal::GetCapturedStderr();
    ASSERT_TRUE(formed);
    const std::size_t at = log.find("group_fault ");
    ASSERT_NE(at, std::string::npos) << log;
    const std::string line = log.substr(at, log.find('\n', at) - at);
    EXPECT_NE(line.find("killed by signal 9"), std::string::npos) << line;
    EXPECT_EQ(log.find("group_fault ", at + 1), std::string::npos) << "it is told once: " << log;
  }
}

// What is known of a rank that was stopped is not replaced by the kill that followed.
TEST(GroupDeath, OfAStoppedRankIsToldWithTheStop) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.cluster.freeze(kSecond);
  world.engine.on_stopped_by_signal(kSecond);
  ASSERT_TRUE(world.run_until([&] { return world.book.ready.size() == 2; }, 200));
  EXPECT_EQ(world.engine.status().last_error, "rank 1: unavailable: it was stopped by a signal");
}

TEST(GroupDeath, TooOftenEndsTheReplicaWithTheCause) {
  WorldOptions options;
  options.restart_limit = 2;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(world.run_until([&] { return world.engine.group().ready(); }));
    world.cluster.crash(kFirst, SIGKILL);
    world.pass(30);
  }
  ASSERT_TRUE(world.run_until([&] { return world.book.stopped.has_value(); }));
  ASSERT_EQ(world.book.failed.size(), 1U);
  EXPECT_NE(world.book.failed[0].message.find("3 faults within 60"), std::string::npos)
      << world.book.failed[0].message;
  EXPECT_NE(world.book.failed[0].message.find("rank 0"), std::string::npos);
  EXPECT_EQ(world.cluster.live_ranks(), 0U);
}

TEST(GroupDeath, LongAgoIsForgiven) {
  WorldOptions options;
  options.restart_limit = 1;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(world.run_until([&] { return world.engine.group().ready(); }));
    world.cluster.crash(kFirst, SIGKILL);
    world.pass(61000);
  }
  EXPECT_TRUE(world.book.failed.empty());
  EXPECT_TRUE(world.engine.group().ready());
}

TEST(GroupHang, OfAnIdleRankIsFoundByAPing) {
  WorldOptions options;
  options.ping_periods = 20;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  world.pass(4000);
  EXPECT_GE(world.cluster.count(RankOp::kPing), 8U);
  world.cluster.freeze(kSecond);
  ASSERT_TRUE(world.run_until([&] { return world.book.ready.size() == 2; }, 1000));
  EXPECT_EQ(world.cluster.kills(), 1U);
}

// Ticks of an idle replica are rare. Its first step is watched no later for that, at whatever
// moment between two of them it begins.
TEST(GroupHang, InTheFirstStepOfAnIdleReplicaIsFoundAsSoonAsInAnyOther) {
  for (Millis idle = 1000; idle < 1200; idle += 7) {
    ReplicaWorld world({});
    ASSERT_TRUE(world.start());
    world.pass(idle);
    world.cluster.freeze(kSecond);
    world.submit(world.request(1, 20, 20));
    const Millis at = world.time.millis();
    ASSERT_TRUE(world.run_until([&] { return world.cluster.kills() == 1; }));
    EXPECT_LE(world.time.millis() - at, (10 + 3 + 2) * 20) << "start, grace, and the odd tick";
    ASSERT_TRUE(world.run_to_ends());
  }
}

TEST(GroupHang, ByAStopSignalIsNotWaitedFor) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 20, 20));
  ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(kFirst, RankOp::kStep); }));
  world.cluster.freeze(kSecond);
  const Millis at = world.time.millis();
  world.engine.on_stopped_by_signal(kSecond);
  ASSERT_TRUE(world.run_until([&] { return world.cluster.kills() == 1; }));
  EXPECT_LE(world.time.millis() - at, (3 + 1) * 20) << "only the grace";
  ASSERT_TRUE(world.run_to_ends());
}

// Killing one rank and stopping the other a moment later: at each of these moments the second one
// owes an answer, has given it already, or waits for a successor of the first.
TEST(GroupHang, ByAStopSignalIsNotForgottenWithTheStepItCameIn) {
  for (Millis delay = 0; delay <= 30; ++delay) {
    ReplicaWorld world({});
    ASSERT_TRUE(world.start());
    world.submit(world.request(1, 20, 20));
    ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(kFirst, RankOp::kStep); }));
    world.cluster.crash(kFirst, SIGKILL);
    world.pass(delay);
    world.cluster.freeze(kSecond);
    world.engine.on_stopped_by_signal(kSecond);
    ASSERT_TRUE(world.run_until([&] { return world.cluster.kills() == 1; }, (3 + 1) * 20))
        << "stopped " << delay << " ms after the death: it is told, not waited for";
    ASSERT_TRUE(world.run_to_ends());
    EXPECT_EQ(world.engine.status().ranks[1].restarts, 1U);
  }
}

TEST(GroupHang, OfALinkThatTakesNothingEndsInAKill) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.transport.judge_with([&](const Passage& passage) {
    Treatment treatment;
    if (passage.direction == Direction::kToRank && passage.rank == kSecond &&
        passage.incarnation.value() == 1) {
      treatment.sent = wire::Sent::kWouldBlock;
    }
    return treatment;
  });
  world.submit(world.request(1, 20, 20));
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(world.cluster.kills(), 1U);
  EXPECT_EQ(world.engine.status().ranks[1].restarts, 1U);
  EXPECT_NE(world.engine.status().ranks[1].last_error.find("takes no command"), std::string::npos);
}

TEST(GroupHang, UnderAWrapperIsSlownessAndIsWaitedFor) {
  WorldOptions options;
  options.patient = true;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 20, 20));
  ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(kSecond, RankOp::kStep); }));
  world.cluster.freeze(kSecond);  // a debugger holds it
  world.pass(60'000);
  EXPECT_EQ(world.cluster.kills(), 0U);
  world.cluster.thaw(kSecond);
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(world.engine.status().epoch, Epoch(1));
}

TEST(GroupHang, UnderAWrapperLastsNotForEverOnceTheGroupHasToFormAgain) {
  WorldOptions options;
  options.patient = true;
  ReplicaWorld world(options);
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 20, 20));
  ASSERT_TRUE(world.run_until([&] { return world.cluster.executing(kSecond, RankOp::kStep); }));
  world.cluster.freeze(kSecond);
  world.cluster.crash(kFirst, SIGKILL);
  world.pass(25'000);
  EXPECT_EQ(world.cluster.kills(), 0U) << "it has 30 s to answer the abort";
  world.pass(10'000);
  EXPECT_EQ(world.cluster.kills(), 1U);
  ASSERT_TRUE(world.run_to_ends());
}

TEST(GroupHang, OfALateWatcherAccusesNobody) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.tick_period = 45;  // starved: every tick is late
  world.submit(world.request(1, 20, 1));
  world.cluster.freeze(kSecond);
  world.pass(1500);  // one that is on time takes a tenth of it
  EXPECT_EQ(world.cluster.kills(), 0U);
  world.cluster.thaw(kSecond);
  ASSERT_TRUE(world.run_to_ends());
}

// Where a quota makes every tick late, a rank that hangs is found all the same.
TEST(GroupHang, IsFoundByAWatcherThatIsAlwaysLate) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.tick_period = 45;
  world.submit(world.request(1, 20, 1));
  world.cluster.freeze(kSecond);
  world.pass(60'000);
  EXPECT_EQ(world.cluster.kills(), 1U);
  ASSERT_TRUE(world.run_to_ends());
}

TEST(GroupError, ReplacesTheRankThatAnsweredIt) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 20, 20));
  world.cluster.fail_next(kSecond, RankOp::kStep, internal_error("exception: bad tile"));
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(world.engine.status().ranks[0].restarts, 0U);
  EXPECT_EQ(world.engine.status().ranks[1].restarts, 1U);
  EXPECT_EQ(world.cluster.count(RankOp::kClear), 0U) << "the KV is what it was";
}

TEST(GroupError, OfTheCommunicatorFormsTheGroupAgain) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 20, 20));
  world.cluster.fail_next_segment(unavailable("broken pipe"));
  world.cluster.crash(kSecond, SIGKILL);
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(world.engine.status().epoch, Epoch(3));
  EXPECT_TRUE(world.book.failed.empty());
}

TEST(GroupError, OfBadDataDropsTheKv) {
  ReplicaWorld world({});
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 20, 20));
  world.cluster.fail_next(kSecond, RankOp::kStep, data_loss("a value is not finite"));
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_EQ(world.cluster.count(RankOp::kClear), 2U);
}

}  // namespace
}  // namespace phalanx::testing
