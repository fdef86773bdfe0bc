// SPDX-License-Identifier: Apache-2.0
// What is judged of the replicas, over processes that do not exist, in a time that the test moves.
#include "phalanx/fleet/replica_slots.h"

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "replica_slots_world.h"

namespace phalanx::fleet {
namespace {

using Notes = std::vector<std::string>;

wire::ReplicaStatus report_with_rank(std::int32_t pid) {
  wire::ReplicaStatus status;
  status.running = 3;
  wire::RankStatus rank;
  rank.state = wire::RankState::kReady;
  rank.pid = pid;
  rank.incarnation = Incarnation(4);
  status.ranks = {rank, rank};
  return status;
}

TEST(ReplicaSlots, ADrainedOneStaysDrainedOverItsRestarts) {
  World world(2);
  world.start();
  EXPECT_TRUE(world.slots.drain(ReplicaId(0)).has_value());
  EXPECT_TRUE(world.slots.restart(ReplicaId(0)).has_value());
  world.settle();
  EXPECT_EQ(world.incarnation(0), 2U);
  EXPECT_EQ(world.status(0).state, State::kDraining);
  EXPECT_TRUE(world.slots.restart(ReplicaId(1)).has_value());
  EXPECT_TRUE(world.slots.drain(ReplicaId(1)).has_value()) << "while it stops";
  world.settle();
  EXPECT_EQ(world.status(1).state, State::kDraining);
  world.die(0);
  world.settle();
  EXPECT_EQ(world.status(0).state, State::kDraining) << "what it had goes on there";
  EXPECT_TRUE(world.slots.resume(ReplicaId(0)).has_value());
  world.settle();
  EXPECT_EQ(world.status(0).state, State::kReady);
  EXPECT_TRUE(world.slots.restart(ReplicaId(0)).has_value());
  world.settle();
  EXPECT_EQ(world.status(0).state, State::kReady);
}

TEST(ReplicaSlots, ADrainedOneThatFailsHoldsUpNoRoll) {
  World world(2);
  world.start();
  EXPECT_TRUE(world.slots.drain(ReplicaId(0)));
  while (world.status(0).state != State::kFailed) {
    if (world.runner.processes.contains(0)) {
      world.die(0, os::Signaled{SIGSEGV, true}, DeathOrigin::kOwn);
    }
    world.pass(seconds(10));
  }
  const std::uint32_t failed = world.incarnation(0);
  const std::uint32_t before = world.incarnation(1);
  world.slots.roll();
  world.settle();
  EXPECT_EQ(world.incarnation(1), before + 1);
  EXPECT_EQ(world.incarnation(0), failed) << "it is left alone";
  EXPECT_EQ(world.rolled, 1);
}

TEST(ReplicaSlots, ADrainedOneThatComesBackTakesNothingNew) {
  World world(1);
  world.start();
  EXPECT_TRUE(world.slots.drain(ReplicaId(0)));
  EXPECT_TRUE(world.alive.at(0));
  world.die(0);
  EXPECT_EQ(world.status(0).state, State::kBackoff);
  EXPECT_FALSE(world.slots.any_may_serve());
  world.settle();
  EXPECT_EQ(world.status(0).state, State::kDraining);
  EXPECT_TRUE(world.alive.at(0)) << "it finishes what was accepted";
  EXPECT_TRUE(world.slots.restart(ReplicaId(0)));
  world.slots.on_asked_to_stop(0);
  EXPECT_FALSE(world.alive.at(0));
}

TEST(ReplicaSlots, NoneIsStartedBehindTheEnd) {
  World world(2);
  world.start();
  world.slots.stop_all();
  EXPECT_EQ(world.slots.restart(ReplicaId(0)).error().code(), Code::kFailedPrecondition);
  EXPECT_EQ(world.slots.resume(ReplicaId(1)).error().code(), Code::kFailedPrecondition);
  world.settle();
  EXPECT_TRUE(world.stopped);
}

TEST(ReplicaSlots, UnderAWrapperIsNeverHungForBeingSilent) {
  World world(2);
  world.slots.be_patient_with(1);
  world.start();
  for (int tick = 0; tick < 600; ++tick) {  // a minute without a heartbeat
    world.clock.advance(milliseconds(100));
    world.slots.on_tick();
  }
  EXPECT_FALSE(world.runner.processes.at(0).signals.empty()) << "the other is";
  EXPECT_TRUE(world.runner.processes.at(1).signals.empty());
  EXPECT_EQ(world.status(1).state, State::kReady);
}

TEST(ReplicaSlots, UnderAWrapperMayTakeItsTimeToStart) {
  World world(2);
  world.slots.be_patient_with(1);
  world.slots.start_all();
  world.clock.advance(seconds(3600));
  world.slots.on_tick();
  EXPECT_FALSE(world.runner.processes.at(0).signals.empty());
  EXPECT_TRUE(world.runner.processes.at(1).signals.empty());
  world.ready(1);
  EXPECT_EQ(world.status(1).state, State::kReady);
}

TEST(ReplicaSlots, OnlyADeathOfItsOwnWhileItServesIsHeldAgainstRequests) {
  const os::ExitReason fault = os::Signaled{SIGSEGV, false};
  World world(1);
  world.start();
  world.die(0, fault, DeathOrigin::kSent);
  EXPECT_FALSE(world.own) << "somebody sent the signal";
  world.settle();
  world.slots.on_asked_to_stop(0);
  world.die(0, os::Exited{0}, DeathOrigin::kOwn);
  EXPECT_FALSE(world.own) << "it was asked to end";
  world.settle();
  world.die(0, os::Exited{77}, DeathOrigin::kOwn);
  EXPECT_FALSE(world.own) << "the leader took nothing";

  World another(1);
  another.start();
  for (int i = 0; i < 10; ++i) {  // far more than the intensity allows
    another.die(0, fault, DeathOrigin::kOwn);
    EXPECT_TRUE(another.own);
    EXPECT_EQ(another.status(0).state, State::kBackoff);
    another.settle();
  }
}

TEST(ReplicaSlots, TheFirstStartOfAllIsStrict) {
  World world(2);
  world.slots.start_all();
  EXPECT_FALSE(world.slots.start_is_over());
  world.die(1, os::Exited{69});
  EXPECT_EQ(world.take(), (Notes{"lost 1", "failed 1"}));
  EXPECT_EQ(world.cause, "replica 1: exited with status 69");
  EXPECT_EQ(world.status(1).state, State::kFailed);
}

TEST(ReplicaSlots, ADeathAtTheFirstStartIsRepairedOnceAnotherReplicaServes) {
  for (const os::ExitReason& reason :
       {os::ExitReason(os::Signaled{SIGKILL, false}), os::ExitReason(os::Exited{65})}) {
    World world(2);
    world.slots.start_all();
    world.ready(0);
    EXPECT_FALSE(world.slots.start_is_over());
    static_cast<void>(world.take());
    world.die(1, reason);
    EXPECT_EQ(world.take(), (Notes{"lost 1", "died 1"}));
    EXPECT_EQ(world.status(1).state, State::kBackoff);
    EXPECT_TRUE(world.slots.start_is_over()) << "it has shown that it takes longer";
    world.settle();
    EXPECT_EQ(world.status(1).state, State::kReady);
    EXPECT_EQ(world.incarnation(0), 1U);
  }
}

TEST(ReplicaSlots, AReplicaThatComesBackNoMoreLeavesTheOthersAlone) {
  World world(2);
  world.start();
  for (int i = 0; i < 3; ++i) {
    world.die(1);
    world.pass(seconds(1));
  }
  EXPECT_EQ(world.status(1).state, State::kFailed);
  EXPECT_EQ(world.status(0).state, State::kReady);
  EXPECT_FALSE(world.slots.all_failed());
  EXPECT_TRUE(world.slots.any_may_serve());
}

// It lacked something, and then took long to end: it is started again as often as it takes.
TEST(ReplicaSlots, OneThatHasGivenUpAndHangsIsWhatItSaid) {
  World world(1);
  world.start();
  for (std::uint32_t round = 1; round <= 4; ++round) {
    world.slots.on_giving_up(0, Incarnation(round), resource_exhausted("no more threads"));
    for (int tick = 0; tick < 40; ++tick) {
      world.clock.advance(milliseconds(100));
      world.slots.on_tick();
    }
    world.die(0);
    EXPECT_NE(world.status(0).last_error.find("no more threads"), std::string::npos)
        << world.status(0).last_error;
    world.settle();
    ASSERT_EQ(world.status(0).state, State::kReady) << "round " << round;
  }
}

TEST(ReplicaSlots, ALostReplicaHasNoReadyRanks) {
  World world(1);
  world.start();
  world.slots.on_status(0, Incarnation(1), report_with_rank(4711));
  world.slots.on_lost(0);
  const wire::ReplicaStatus& told = world.slots.reports().at(ReplicaId(0));
  ASSERT_EQ(told.ranks.size(), 2U);
  for (const wire::RankStatus& rank : told.ranks) {
    EXPECT_EQ(rank.state, wire::RankState::kDead);
    EXPECT_EQ(rank.pid, 0);
    EXPECT_EQ(rank.incarnation, Incarnation(4));
  }
  EXPECT_EQ(told.running, 0U);
}

TEST(ReplicaSlots, OneThatGivesUpLosesItsRequestsBeforeItEnds) {
  World world(2);
  world.start();
  static_cast<void>(world.take());
  world.slots.on_giving_up(0, Incarnation(1), unavailable("too many faults"));
  EXPECT_EQ(world.take(), (Notes{"lost 0"}));
  world.die(0, os::Exited{69});
  EXPECT_NE(world.status(0).last_error.find("too many faults"), std::string::npos);
}

TEST(ReplicaSlots, AGroupThatDoesNotFormIsToldAtEveryTickUntilItDoes) {
  World world(2);
  world.start();
  wire::ReplicaStatus recovering;
  recovering.recovering = true;
  const milliseconds limit(100 * ReplicaSlots::kUnformedTicks);
  static_cast<void>(world.take());

  world.slots.on_status(0, Incarnation(1), recovering);
  EXPECT_EQ(world.take(), (Notes{"down 0"}));
  world.pass(limit - milliseconds(100));
  world.slots.on_ready(0, Incarnation(1), 11);
  EXPECT_EQ(world.take(), (Notes{"ready 0"})) << "it was in time";

  world.slots.on_status(0, Incarnation(1), recovering);
  world.pass(limit - milliseconds(100));
  world.slots.on_status(0, Incarnation(1), recovering);  // still, or again: it was never ready
  EXPECT_EQ(world.take(), (Notes{"down 0"}));
  world.pass(milliseconds(200));
  EXPECT_EQ(world.take(), (Notes{"unformed 0", "unformed 0"}));
  world.slots.on_status(0, Incarnation(1), {});
  world.slots.on_ready(0, Incarnation(1), 11);
  world.pass(limit);
  EXPECT_EQ(world.take(), (Notes{"ready 0"}));

  world.slots.on_status(0, Incarnation(1), recovering);
  for (int i = 0; i < 50; ++i) {
    world.clock.advance(milliseconds(250));  // a starved leader accuses nobody
    world.slots.on_tick();
  }
  EXPECT_EQ(world.take(), (Notes{"down 0"}));
  world.die(0);
  world.pass(limit);
  EXPECT_EQ(world.take(), (Notes{"lost 0", "died 0"})) << "what follows is a new one";
}

TEST(ReplicaSlots, OneThatLooksForACulpritKeepsItsSuspects) {
  World world(2);
  world.start();
  wire::ReplicaStatus searching;
  searching.recovering = true;
  searching.searching = true;
  world.slots.on_status(0, Incarnation(1), searching);
  static_cast<void>(world.take());
  world.pass(seconds(10));
  EXPECT_TRUE(world.take().empty());
  EXPECT_FALSE(world.alive[0]) << "others are better elsewhere";
  searching.searching = false;
  world.slots.on_status(0, Incarnation(1), searching);
  world.pass(milliseconds(100));
  EXPECT_EQ(world.take(), std::vector<std::string>{"unformed 0"});
}

TEST(ReplicaSlots, SilenceIsAHangAndTicksThatComeLateHardlyCount) {
  const auto ticks_to_the_kill = [](Duration apart) {
    World world(1);
    world.start();
    int ticks = 0;
    while (world.runner.processes[0].signals.empty() && ticks < 1000) {
      world.clock.advance(apart);
      world.slots.on_tick();
      ++ticks;
    }
    EXPECT_EQ(world.runner.processes[0].signals, (std::vector<int>{SIGKILL}));
    return ticks;
  };
  EXPECT_EQ(ticks_to_the_kill(milliseconds(100)), 1 + 30) << "before the first one is nothing";
  EXPECT_EQ(ticks_to_the_kill(milliseconds(250)), 240) << "a starved watcher accuses nobody early";
}

TEST(ReplicaSlots, OneThatIsKilledLosesItsRequestsThoughItMayNotDie) {
  World world(2);
  world.start();
  static_cast<void>(world.take());
  world.slots.on_hung(0, world.status(0).incarnation, "frozen");
  EXPECT_EQ(world.take(), (Notes{"down 0", "lost 0"})) << "before it is reaped";
  EXPECT_FALSE(world.slots.proven(0));
  world.slots.on_hello(0, world.status(0).incarnation);
  EXPECT_FALSE(world.slots.proven(0)) << "what it had sent before";
  world.pass(seconds(10));
  EXPECT_TRUE(world.take().empty());
  world.die(0);
  world.pass(seconds(1));
  world.ready(0);
  EXPECT_TRUE(world.slots.proven(0));
  EXPECT_EQ(world.take(), (Notes{"lost 0", "died 0", "ready 0"}));
}

TEST(ReplicaSlots, WhatDoesNotDieIsNotReadyAgainBecauseItIsResumed) {
  World world(1);
  world.start();
  ASSERT_TRUE(world.slots.drain(ReplicaId(0)));
  world.slots.on_hung(0, world.status(0).incarnation, "frozen");
  static_cast<void>(world.take());
  ASSERT_TRUE(world.slots.resume(ReplicaId(0)));
  world.pass(seconds(60));
  EXPECT_EQ(world.take(), (Notes{"resumed 0"}));
  EXPECT_EQ(world.status(0).state, State::kLoading);
  world.die(0);
  world.pass(seconds(1));
  world.ready(0);
  EXPECT_EQ(world.take(), (Notes{"lost 0", "died 0", "ready 0"}));
}

TEST(ReplicaSlots, OneWhoseGroupIsFormedAnewIsReadyThenThoughItIsResumedBefore) {
  World world(1);
  world.start();
  ASSERT_TRUE(world.slots.drain(ReplicaId(0)));
  wire::ReplicaStatus recovering;
  recovering.recovering = true;
  world.slots.on_status(0, Incarnation(1), recovering);
  static_cast<void>(world.take());
  ASSERT_TRUE(world.slots.resume(ReplicaId(0)));
  EXPECT_EQ(world.take(), (Notes{"resumed 0"}));
  EXPECT_EQ(world.status(0).state, State::kLoading);
  world.slots.on_ready(0, Incarnation(1), 11);
  EXPECT_EQ(world.take(), (Notes{"ready 0"}));

  ASSERT_TRUE(world.slots.drain(ReplicaId(0)));
  world.slots.on_status(0, Incarnation(1), recovering);
  world.slots.on_ready(0, Incarnation(1), 11);
  ASSERT_TRUE(world.slots.resume(ReplicaId(0)));
  EXPECT_EQ(world.status(0).state, State::kReady) << "it was formed before";
}

TEST(ReplicaSlots, OneThatWasAskedToStopIsNotAliveForAWordThatCrossedIt) {
  World world(1);
  world.start();
  world.slots.on_asked_to_stop(0);
  EXPECT_FALSE(world.alive[0]);
  world.slots.on_ready(0, world.status(0).incarnation, 11);
  EXPECT_FALSE(world.alive[0]);
}

TEST(ReplicaSlots, OneThatDoesNotDieHoldsUpNoEnd) {
  World world(2);
  world.start();
  world.slots.stop_all();
  world.die(1, os::Exited{0});
  const auto& signals = world.runner.processes[0].signals;
  world.pass(seconds(12));
  EXPECT_EQ(signals, (std::vector<int>{SIGTERM, SIGKILL}));
  EXPECT_FALSE(world.stopped);
  world.pass(seconds(5));
  EXPECT_TRUE(world.stopped) << "5 s after SIGKILL";
}

TEST(ReplicaSlots, WithAllReplicasDrainedNoneMayServe) {
  World world(2);
  world.start();
  EXPECT_TRUE(world.slots.drain(ReplicaId(0)));
  EXPECT_TRUE(world.slots.any_may_serve());
  EXPECT_TRUE(world.slots.drain(ReplicaId(1)));
  EXPECT_FALSE(world.slots.any_may_serve());
  EXPECT_TRUE(world.slots.resume(ReplicaId(1)));
  EXPECT_TRUE(world.slots.any_may_serve());
  EXPECT_EQ(world.slots.drain(ReplicaId(2)).error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace phalanx::fleet
