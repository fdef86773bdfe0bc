// SPDX-License-Identifier: Apache-2.0
// A replica is started again only when the ranks that it left behind are gone, and their memory
// with them.
#include "phalanx/fleet/burials.h"

#include <csignal>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/fleet/replica_slots.h"

#include "support/fake_process_runner.h"
#include "support/manual_clock.h"

namespace phalanx::fleet {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct World {
  explicit World(std::size_t replicas)
      : slots(replicas, options(), runner, events, clock),
        burials([this] { return orphans; },
                [this](const supervise::Death& death, const std::vector<pid_t>& remaining) {
                  left = remaining;
                  slots.on_exit(death);
                },
                clock) {
    events.on_ready = [](ReplicaId, std::uint64_t) {};
    events.on_down = [](ReplicaId) {};
    events.on_lost = [](ReplicaId) {};
    events.on_started = [](ReplicaId) {};
    events.on_alive = [](ReplicaId, bool) {};
    events.on_unformed = [](ReplicaId) {};
    events.on_died = [](ReplicaId, bool, const std::string&) { return false; };
    events.on_reaped = [](ReplicaId) {};
    events.on_failed = [](ReplicaId, const Error&) {};
    runner.on_spawn = [this](std::size_t slot, Incarnation incarnation) {
      slots.on_spawned(slot, incarnation);
    };
    slots.start_all();
    for (std::uint32_t slot = 0; slot < slots.size(); ++slot) {
      const Incarnation life = slots.status(ReplicaId(slot)).incarnation;
      slots.on_hello(slot, life);
      slots.on_ready(slot, life, 11);
    }
  }

  [[nodiscard]] static supervise::SupervisorOptions options() {
    supervise::SupervisorOptions result;
    result.restart.backoff = {milliseconds(100), seconds(10), 0.0};
    result.restart.intensity = {2, seconds(60)};
    return result;
  }

  void die(std::uint32_t slot) {
    supervise::Death death;
    death.slot = slot;
    death.incarnation = runner.end(slot).incarnation;
    death.reason = os::Signaled{SIGKILL, false};
    slots.on_lost(slot);
    burials.begin(slots.judge(death));
  }
  void pass(Duration duration) {
    for (Duration gone{}; gone < duration; gone += milliseconds(50)) {
      clock.advance(milliseconds(50));
      burials.poll();
      for (const auto& [slot, process] : runner.processes) {
        slots.on_heartbeat(slot);
      }
      slots.on_tick();
    }
  }
  [[nodiscard]] bool lives(std::size_t slot) const { return runner.processes.count(slot) > 0; }

  test::ManualClock clock;
  test::FakeProcessRunner runner;
  ReplicaEvents events;
  ReplicaSlots slots;
  std::vector<pid_t> orphans;  // that live
  std::vector<pid_t> left;     // as told with the last burial
  Burials burials;
};

TEST(Burials, AReplicaWithoutOrphansIsStartedAgainAtOnce) {
  World world(1);
  world.die(0);
  EXPECT_FALSE(world.burials.any());
  world.pass(milliseconds(200));  // the backoff
  EXPECT_TRUE(world.lives(0));
}

TEST(Burials, AReplicaIsStartedAgainOnlyWhenItsRanksAreGone) {
  World world(2);
  world.orphans = {501, 502};
  world.die(0);
  world.pass(seconds(2));
  EXPECT_FALSE(world.lives(0)) << "two ranks still hold the memory that its successor needs";
  world.orphans = {502};
  world.pass(seconds(2));
  EXPECT_FALSE(world.lives(0)) << "one rank still holds its part";
  EXPECT_TRUE(world.lives(1)) << "the other replica has nothing to do with it";
  world.orphans.clear();
  world.pass(milliseconds(200));
  EXPECT_TRUE(world.lives(0));
  EXPECT_TRUE(world.left.empty());
  EXPECT_EQ(world.runner.spawns, 3);
  EXPECT_EQ(world.runner.double_spawns, 0);
}

TEST(Burials, AnOrphanThatDoesNotEndIsNotWaitedForForEver) {
  World world(1);
  world.orphans = {501};
  world.die(0);
  world.pass(Burials::kLimit - milliseconds(50));
  EXPECT_FALSE(world.lives(0));
  world.pass(milliseconds(300));
  EXPECT_TRUE(world.lives(0));
  EXPECT_EQ(world.left, std::vector<pid_t>{501}) << "it is named";
}

// A helper of the script that became the server, or what was left in its container.
TEST(Burials, StrangersAreNobodysRanks) {
  World world(2);
  world.orphans = {400};
  world.burials.look_around();
  world.pass(Burials::kStrangerAge);
  world.die(0);
  EXPECT_FALSE(world.burials.any()) << "there is nobody to wait for";
  world.orphans = {400, 501};
  world.die(1);
  world.pass(seconds(2));
  EXPECT_FALSE(world.lives(1)) << "but for ranks of its own";
  world.orphans = {400};
  world.pass(milliseconds(200));
  EXPECT_TRUE(world.lives(1));
}

// Ranks are here before the death of their replica is known.
TEST(Burials, WhoHasJustComeIsNoStranger) {
  World world(1);
  world.orphans = {501};
  world.burials.look_around();
  world.pass(Burials::kStrangerAge - milliseconds(50));
  world.die(0);
  EXPECT_TRUE(world.burials.any());
  world.burials.look_around();
  world.pass(Burials::kStrangerAge);
  EXPECT_TRUE(world.burials.any()) << "nor does anybody become one while he is waited for";
}

TEST(Burials, EachDeathIsToldOnce) {
  World world(2);
  world.orphans = {501};
  world.die(0);
  world.pass(seconds(1));
  world.die(1);
  world.orphans.clear();
  world.pass(milliseconds(300));
  EXPECT_TRUE(world.lives(0));
  EXPECT_TRUE(world.lives(1));
  EXPECT_FALSE(world.burials.any());
  EXPECT_EQ(world.runner.spawns, 4);
}

}  // namespace
}  // namespace phalanx::fleet
