// SPDX-License-Identifier: Apache-2.0
// Ends that are wanted: stop, escalation, restart at an operator's word.
#include <gtest/gtest.h>

#include "supervisor_world.h"

namespace phalanx::supervise {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Lines = std::vector<std::string>;

TEST(SupervisorStop, AsksFirst) {
  World world;
  world.start_and_ready();
  static_cast<void>(world.notes.take());
  world.supervisor.stop(0);
  EXPECT_TRUE(world.runner.processes[0].asked_to_stop);
  EXPECT_TRUE(world.runner.processes[0].signals.empty());
  EXPECT_FALSE(world.supervisor.all_stopped());
  world.die(os::Exited{0});
  EXPECT_EQ(world.notes.take(), (Lines{"down 0.1", "death 0.1", "stopped 0"}));
  EXPECT_TRUE(world.supervisor.all_stopped());
  EXPECT_FALSE(world.supervisor.next_deadline());
  EXPECT_EQ(world.status().last_error, "") << "an end that was wanted is no error";
}

TEST(SupervisorStop, EscalatesByBoundedSteps) {
  World world;
  world.start_and_ready();
  world.supervisor.stop(0);
  const auto& signals = world.runner.processes[0].signals;
  world.pass(milliseconds(9999));
  EXPECT_EQ(signals, std::vector<int>{});
  world.pass(milliseconds(1));
  EXPECT_EQ(signals, std::vector<int>{SIGTERM});
  world.pass(seconds(2));
  EXPECT_EQ(signals, (std::vector<int>{SIGTERM, SIGKILL}));
  EXPECT_EQ(world.notes.take(), (Lines{"ready 0.1", "down 0.1", "doomed 0"}));
  world.pass(seconds(5));
  EXPECT_EQ(world.notes.take(), Lines{"stuck 0"});
  world.die();
  EXPECT_EQ(world.state(), State::kStopped);
}

// No polite signal helps, and those it works for wait.
TEST(SupervisorStop, KillsAtOnceWhatHangsMeanwhile) {
  World world;
  world.start_and_ready();
  world.supervisor.stop(0);
  world.supervisor.on_hung(0, world.incarnation(), "no heartbeat");
  EXPECT_EQ(world.runner.processes[0].signals, std::vector<int>{SIGKILL});
  EXPECT_EQ(world.notes.take(), (Lines{"ready 0.1", "down 0.1", "doomed 0"}));
  world.die();
  EXPECT_EQ(world.state(), State::kStopped);
}

// An operator who insists makes nothing of it stuck: that it dies is waited for.
TEST(SupervisorStop, WaitsForTheDeathOfWhatWasKilledBefore) {
  for (const bool hangs_first : {true, false}) {
    World world;
    world.start_and_ready();
    if (!hangs_first) {
      world.supervisor.stop_all();
    }
    world.supervisor.on_hung(0, world.incarnation(), "no heartbeat");
    static_cast<void>(world.notes.take());
    world.pass(seconds(4));
    world.supervisor.kill_all();
    EXPECT_EQ(world.notes.take(), Lines{}) << hangs_first;
    EXPECT_FALSE(world.supervisor.all_stopped()) << hangs_first;
    world.pass(milliseconds(999));
    EXPECT_EQ(world.notes.take(), Lines{}) << hangs_first;
    world.pass(milliseconds(1));
    EXPECT_EQ(world.notes.take(), Lines{"stuck 0"}) << hangs_first;
    EXPECT_TRUE(world.supervisor.all_stopped()) << hangs_first;
  }
}

// What is drained no more is as far as it was, but for one that is dying.
TEST(SupervisorStop, AResumedSlotThatWasKilledHasToDieInItsTime) {
  World world;
  world.start_and_ready();
  world.supervisor.drain(0);
  world.supervisor.on_hung(0, world.incarnation(), "no heartbeat");
  world.supervisor.resume(0);
  static_cast<void>(world.notes.take());
  world.pass(milliseconds(4999));
  EXPECT_EQ(world.notes.take(), Lines{});
  world.pass(milliseconds(1));
  EXPECT_EQ(world.notes.take(), Lines{"stuck 0"});
}

TEST(SupervisorStop, AsksNothingOfWhatWasKilledBefore) {
  World world;
  world.start_and_ready();
  world.supervisor.on_hung(0, world.incarnation(), "no heartbeat");
  static_cast<void>(world.notes.take());
  world.supervisor.stop(0);
  EXPECT_FALSE(world.runner.processes[0].asked_to_stop);
  world.pass(milliseconds(4999));
  EXPECT_EQ(world.runner.processes[0].signals, std::vector<int>{SIGKILL});
  EXPECT_EQ(world.notes.take(), Lines{});
  world.pass(milliseconds(1));
  EXPECT_EQ(world.notes.take(), Lines{"stuck 0"});
  world.die();
  EXPECT_EQ(world.state(), State::kStopped);
}

TEST(SupervisorStop, TellsAllBeforeItWaitsForAny) {
  World world(3);
  for (std::size_t slot = 0; slot < 3; ++slot) {
    world.start_and_ready(slot);
  }
  world.supervisor.stop_all();
  for (std::size_t slot = 0; slot < 3; ++slot) {
    EXPECT_TRUE(world.runner.processes[slot].asked_to_stop);
  }
  world.pass(seconds(10));
  for (std::size_t slot = 0; slot < 3; ++slot) {
    EXPECT_EQ(world.runner.processes[slot].signals, std::vector<int>{SIGTERM});
  }
}

TEST(SupervisorStop, EndsAChildThatIsStillStarting) {
  World world;
  world.supervisor.start(0);
  world.supervisor.stop(0);
  EXPECT_EQ(world.state(), State::kStopping);
  world.ready();
  EXPECT_EQ(world.state(), State::kStopping);
  world.die(os::Exited{65});
  EXPECT_EQ(world.state(), State::kStopped) << "its reason does not matter any more";
}

TEST(SupervisorStop, CancelsAScheduledRestart) {
  World world;
  world.start_and_ready();
  world.die();
  world.supervisor.stop(0);
  world.pass(seconds(100));
  EXPECT_EQ(world.state(), State::kStopped);
  EXPECT_EQ(world.runner.spawns, 1);
}

TEST(SupervisorStop, KillsAtOnceAtASecondSignal) {
  World world(2);
  world.start_and_ready(0);
  world.start_and_ready(1);
  world.supervisor.stop_all();
  world.supervisor.kill_all();
  world.supervisor.kill_all();
  EXPECT_EQ(world.runner.processes[0].signals, std::vector<int>{SIGKILL});
  EXPECT_EQ(world.runner.processes[1].signals, std::vector<int>{SIGKILL});
}

TEST(SupervisorRestart, EndsAndStartsALivingSlot) {
  World world;
  world.start_and_ready();
  world.supervisor.restart(0);
  EXPECT_TRUE(world.runner.processes[0].asked_to_stop);
  EXPECT_EQ(world.runner.spawns, 1);
  world.die(os::Exited{0});
  EXPECT_EQ(world.state(), State::kStarting);
  EXPECT_EQ(world.incarnation(), Incarnation(2));
}

TEST(SupervisorRestart, IsUndoneByAStop) {
  World world;
  world.start_and_ready();
  world.supervisor.restart(0);
  world.supervisor.stop(0);
  world.die(os::Exited{0});
  EXPECT_EQ(world.state(), State::kStopped);
  EXPECT_EQ(world.runner.spawns, 1);
}

TEST(SupervisorRestart, RevivesAFailedSlotWithAFreshHistory) {
  World world;
  world.start_and_ready();
  for (int i = 0; i < 4; ++i) {
    world.die();
    world.pass(seconds(1));
  }
  ASSERT_EQ(world.state(), State::kFailed);
  world.supervisor.restart(0);
  EXPECT_EQ(world.state(), State::kStarting);
  world.die();
  EXPECT_EQ(world.supervisor.next_deadline(), world.clock.now() + milliseconds(100));
}

TEST(SupervisorRestart, DoesNotWaitForTheBackoff) {
  World world;
  world.start_and_ready();
  world.die();
  world.supervisor.restart(0);
  EXPECT_EQ(world.state(), State::kStarting);
  EXPECT_EQ(world.runner.double_spawns, 0);
}

// A listener may command from inside a report.
TEST(SupervisorRestart, AllowsCommandsFromInsideReports) {
  struct StopsAll final : SupervisorListener {
    void on_slot_ready(std::size_t, Incarnation) override {}
    void on_slot_down(std::size_t, Incarnation) override {}
    void on_slot_death(const Death&) override {}
    void on_slot_failed(std::size_t, const Error&) override { supervisor->stop_all(); }
    void on_slot_stopped(std::size_t) override { ++stopped; }
    void on_slot_stuck(std::size_t, pid_t) override {}
    Supervisor* supervisor = nullptr;
    int stopped = 0;
  };
  test::ManualClock clock;
  test::FakeProcessRunner runner;
  StopsAll listener;
  Supervisor supervisor(2, World::exact(), runner, listener, clock);
  listener.supervisor = &supervisor;
  supervisor.start_all();
  for (std::size_t slot = 0; slot < 2; ++slot) {
    Death death;
    death.slot = slot;
    death.incarnation = runner.end(slot).incarnation;
    death.reason = os::Exited{66};
    supervisor.on_exit(death);
  }
  EXPECT_TRUE(supervisor.all_stopped());
  EXPECT_EQ(listener.stopped, 2);
}

}  // namespace
}  // namespace phalanx::supervise
