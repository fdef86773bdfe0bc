// SPDX-License-Identifier: Apache-2.0
// How replicas are replaced one after the other, over processes that do not exist.
#include <csignal>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "replica_slots_world.h"

namespace phalanx::fleet {
namespace {

TEST(ReplicaRoll, ARollRestartsEachOnceOneAfterTheOther) {
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

TEST(ReplicaRoll, ARollTakesNoneAwayWhileAnotherThatHasGivenUpIsEnding) {
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
TEST(ReplicaRoll, ARollReplacesOneThatIsDyingAndNotGone) {
  World world(2);
  world.start();
  world.slots.on_lost(1);
  EXPECT_EQ(world.status(1).state, State::kRecovering);
  world.slots.roll();
  EXPECT_FALSE(world.runner.processes[0].asked_to_stop) << "both would be away";
  world.pass(seconds(1));
  EXPECT_FALSE(world.runner.processes[0].asked_to_stop);
  world.die(1);
  world.settle();
  EXPECT_EQ(world.incarnation(0), 2U);
  EXPECT_EQ(world.incarnation(1), 2U);
  EXPECT_EQ(world.rolled, 1);
}

TEST(ReplicaRoll, ARollGoesOnWithoutOneThatDiesForEver) {
  World world(2);
  world.start();
  world.slots.on_lost(1);
  world.slots.roll();
  world.pass(seconds(64));  // 60 to die, 5 from SIGKILL
  EXPECT_FALSE(world.runner.processes[0].asked_to_stop);
  world.pass(seconds(2));
  EXPECT_FALSE(world.runner.processes[1].signals.empty());
  EXPECT_TRUE(world.runner.processes[0].asked_to_stop);
  world.settle();
  EXPECT_EQ(world.rolled, 1);
}

// Neither while another one is waited for, nor when it is its own turn.
TEST(ReplicaRoll, ARollLeavesOutOneThatNothingEnds) {
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

TEST(ReplicaRoll, HangUpsDuringARollAreOneMoreRollAndWedgeNothing) {
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

TEST(ReplicaRoll, ASlotThatFailsDuringARollEndsItAndTheNextOneRevivesIt) {
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

TEST(ReplicaRoll, AStopDropsTheRoll) {
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

}  // namespace
}  // namespace phalanx::fleet
