// SPDX-License-Identifier: Apache-2.0
// What is judged of the replicas, over processes that do not exist, in a time that the test moves.
#include "phalanx/fleet/replica_slots.h"

#include <csignal>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/fake_process_runner.h"
#include "support/manual_clock.h"

namespace phalanx::fleet {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using supervise::State;

struct World {
  explicit World(std::size_t replicas) : slots(replicas, options(), runner, events, clock) {
    const auto note = [this](const std::string& what, ReplicaId replica) {
      notes.push_back(what + " " + std::to_string(replica.value()));
    };
    events.on_ready = [note](ReplicaId replica, std::uint64_t) { note("ready", replica); };
    events.on_down = [note](ReplicaId replica) { note("down", replica); };
    events.on_lost = [note](ReplicaId replica) { note("lost", replica); };
    events.on_started = [](ReplicaId) {};
    events.on_alive = [this](ReplicaId replica, bool is) { alive[replica.value()] = is; };
    events.on_unformed = [note](ReplicaId replica) { note("unformed", replica); };
    events.on_draining = [note](ReplicaId replica, bool draining) {
      note(draining ? "draining" : "resumed", replica);
    };
    events.on_died = [this](ReplicaId, bool by_itself, const std::string&) {
      own = by_itself;
      return by_itself;
    };
    events.on_reaped = [note](ReplicaId replica) { note("died", replica); };
    events.on_failed = [this, note](ReplicaId replica, const Error& error) {
      note("failed", replica);
      cause = error.message();
    };
    events.on_rolled = [this] { ++rolled; };
    events.on_stopped = [this] { stopped = true; };
    runner.on_spawn = [this](std::size_t slot, Incarnation incarnation) {
      slots.on_spawned(slot, incarnation);
    };
  }

  [[nodiscard]] static supervise::SupervisorOptions options() {
    supervise::SupervisorOptions result;
    result.restart.backoff = {milliseconds(100), seconds(10), 0.0};
    result.restart.intensity = {2, seconds(60)};
    return result;
  }

  [[nodiscard]] supervise::SlotStatus status(std::uint32_t slot) const {
    return slots.status(ReplicaId(slot));
  }
  [[nodiscard]] std::uint32_t incarnation(std::uint32_t slot) const {
    return status(slot).incarnation.value();
  }

  void ready(std::uint32_t slot) {
    slots.on_hello(slot, status(slot).incarnation);
    slots.on_ready(slot, status(slot).incarnation, 11);
  }
  void start() {
    slots.start_all();
    for (std::uint32_t slot = 0; slot < slots.size(); ++slot) {
      ready(slot);
    }
  }
  // The process of `slot` ends, is reaped, and its ranks are gone.
  void die(std::uint32_t slot,
           os::ExitReason reason = os::Signaled{SIGKILL, false},
           DeathOrigin origin = DeathOrigin::kSent) {
    supervise::Death death;
    death.slot = slot;
    death.incarnation = runner.end(slot).incarnation;
    death.reason = reason;
    death.origin = origin;
    slots.on_lost(slot);
    slots.on_exit(slots.judge(death));
  }
  void pass(Duration duration) {
    for (Duration gone{}; gone < duration; gone += milliseconds(100)) {
      clock.advance(milliseconds(100));
      for (std::uint32_t slot = 0; slot < slots.size(); ++slot) {
        if (runner.processes.count(slot) > 0) {
          slots.on_heartbeat(slot);
        }
      }
      slots.on_tick();
    }
  }
  // Those that are asked to stop do; those that are started become ready.
  void settle() {
    for (int i = 0; i < 20; ++i) {
      for (std::uint32_t slot = 0; slot < slots.size(); ++slot) {
        const auto process = runner.processes.find(slot);
        if (process != runner.processes.end() && process->second.asked_to_stop) {
          die(slot, os::Exited{0});
        }
        if (status(slot).state == State::kStarting) {
          ready(slot);
        }
      }
      pass(milliseconds(100));
    }
  }
  [[nodiscard]] std::vector<std::string> take() { return std::exchange(notes, {}); }

  test::ManualClock clock;
  test::FakeProcessRunner runner;
  ReplicaEvents events;
  std::vector<std::string> notes;
  std::map<std::uint32_t, bool> alive;
  bool own = false;   // what the last death was told as
  std::string cause;  // of the last failure
  int rolled = 0;
  bool stopped = false;
  ReplicaSlots slots;
};

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

TEST(ReplicaSlots, ARollRestartsEachOnceOneAfterTheOther) {
  World world(2);
  world.start();
  world.slots.roll();
  EXPECT_TRUE(world.runner.processes[0].asked_to_stop);
  EXPECT_FALSE(world.runner.processes[1].asked_to_stop);
  world.settle();
  EXPECT_EQ(world.incarnation(0), 2U);
  EXPECT_EQ(world.incarnation(1), 2U);
  EXPECT_EQ(world.rolled, 1);
}

TEST(ReplicaSlots, ARollTakesNoneAwayWhileAnotherThatHasGivenUpIsEnding) {
  World world(3);
  world.start();
  world.slots.roll();
  world.slots.on_giving_up(2, Incarnation(1), unavailable("too many faults"));
  world.die(0, os::Exited{0});
  world.ready(0);
  world.pass(milliseconds(500));
  EXPECT_FALSE(world.runner.processes[1].asked_to_stop);
  world.die(2, os::Exited{69}, DeathOrigin::kOwn);
  world.settle();
  EXPECT_EQ(world.incarnation(1), 2U);
  EXPECT_EQ(world.rolled, 1);
}

// Its lifeline is free, and its process stays: its turn comes like that of any other.
TEST(ReplicaSlots, ARollReplacesOneThatIsDyingAndNotGone) {
  World world(2);
  world.start();
  world.slots.on_lost(1);
  EXPECT_EQ(world.status(1).state, State::kReady);
  world.slots.roll();
  world.settle();
  EXPECT_EQ(world.incarnation(0), 2U);
  EXPECT_EQ(world.incarnation(1), 2U);
  EXPECT_EQ(world.rolled, 1);
}

// Neither while another one is waited for, nor when it is its own turn.
TEST(ReplicaSlots, ARollLeavesOutOneThatNothingEnds) {
  World world(3);
  world.start();
  world.slots.on_hung(1, world.status(1).incarnation, "frozen");
  world.slots.roll();
  EXPECT_FALSE(world.runner.processes[0].asked_to_stop) << "it is killed, and comes back";
  world.pass(seconds(6));
  EXPECT_TRUE(world.runner.processes[0].asked_to_stop) << "it did not die of that in 5 s";
  world.settle();
  EXPECT_EQ(world.incarnation(0), 2U);
  EXPECT_EQ(world.incarnation(2), 2U);
  EXPECT_EQ(world.rolled, 1);

  world.slots.roll();
  EXPECT_TRUE(world.runner.processes[0].asked_to_stop);
  world.pass(seconds(18));  // 10 for the message, 2 for SIGTERM, 5 for SIGKILL
  EXPECT_EQ(world.incarnation(0), 2U);
  EXPECT_TRUE(world.runner.processes[2].asked_to_stop);
  world.die(2, os::Exited{0});
  world.ready(2);
  EXPECT_EQ(world.rolled, 2);
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

TEST(ReplicaSlots, HangUpsDuringARollAreOneMoreRollAndWedgeNothing) {
  World world(2);
  world.start();
  world.slots.roll();
  world.slots.roll();
  world.die(0, os::Exited{0});
  world.slots.roll();
  world.settle();
  world.settle();
  EXPECT_EQ(world.incarnation(0), 3U);
  EXPECT_EQ(world.incarnation(1), 3U);
  EXPECT_EQ(world.rolled, 1);
  world.slots.roll();
  world.settle();
  EXPECT_EQ(world.incarnation(1), 4U);
  EXPECT_EQ(world.rolled, 2);
}

TEST(ReplicaSlots, ASlotThatFailsDuringARollEndsItAndTheNextOneRevivesIt) {
  World world(2);
  world.start();
  world.slots.roll();
  world.die(0, os::Exited{0});
  for (int i = 0; i < 3; ++i) {
    world.die(0);
    world.pass(seconds(1));
  }
  EXPECT_EQ(world.status(0).state, State::kFailed);
  EXPECT_EQ(world.rolled, 1);
  EXPECT_FALSE(world.runner.processes[1].asked_to_stop) << "what one did not survive";
  world.slots.roll();
  world.settle();
  EXPECT_EQ(world.rolled, 2);
  EXPECT_EQ(world.status(0).state, State::kReady);
  EXPECT_EQ(world.incarnation(1), 2U);
}

TEST(ReplicaSlots, AStopDropsTheRoll) {
  World world(2);
  world.start();
  world.slots.roll();
  world.slots.stop_all();
  EXPECT_FALSE(world.stopped);
  world.settle();
  EXPECT_TRUE(world.stopped);
  EXPECT_EQ(world.incarnation(0), 1U);
  world.slots.roll();
  world.pass(seconds(1));
  EXPECT_TRUE(world.runner.processes.empty());
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
