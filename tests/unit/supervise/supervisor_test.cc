// SPDX-License-Identifier: Apache-2.0
#include "phalanx/supervise/supervisor.h"

#include <gtest/gtest.h>

#include "supervisor_world.h"

namespace phalanx::supervise {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Lines = std::vector<std::string>;

TEST(Supervisor, StartsAllSlotsSideBySide) {
  World world(3);
  world.supervisor.start_all();
  EXPECT_EQ(world.runner.processes.size(), 3U);
  for (std::size_t slot = 0; slot < 3; ++slot) {
    EXPECT_EQ(world.state(slot), State::kStarting);
    EXPECT_EQ(world.status(slot).incarnation, Incarnation(1));
    EXPECT_EQ(world.status(slot).pid, world.runner.processes[slot].pid);
  }
}

TEST(Supervisor, TellsReadinessOnce) {
  World world;
  world.supervisor.start(0);
  world.supervisor.on_progress(0, Incarnation(1));
  EXPECT_EQ(world.state(), State::kLoading);
  world.ready();
  world.ready();
  EXPECT_EQ(world.notes.take(), Lines{"ready 0.1"});
  EXPECT_EQ(world.state(), State::kReady);
  EXPECT_FALSE(world.supervisor.next_deadline());
}

TEST(Supervisor, RestartsADeadChildAfterTheBackoff) {
  World world;
  world.start_and_ready();
  static_cast<void>(world.notes.take());
  world.die();
  EXPECT_EQ(world.notes.take(), (Lines{"down 0.1", "death 0.1"}));
  EXPECT_EQ(world.state(), State::kBackoff);
  EXPECT_EQ(world.supervisor.next_deadline(), world.clock.now() + milliseconds(100));
  world.pass(milliseconds(99));
  EXPECT_EQ(world.runner.spawns, 1);
  world.pass(milliseconds(1));
  EXPECT_EQ(world.runner.spawns, 2);
  EXPECT_EQ(world.incarnation(), Incarnation(2));
  EXPECT_EQ(world.status().restarts, 1U);
  EXPECT_EQ(world.status().last_error, "killed by signal 9 (SIGKILL)");
  world.ready();
  EXPECT_EQ(world.notes.take(), Lines{"ready 0.2"});
}

TEST(Supervisor, OneWhoseEndHasBegunServesNobodyAndHasItsTime) {
  World world;
  world.start_and_ready();
  static_cast<void>(world.notes.take());
  world.supervisor.on_dying(0, world.incarnation());
  EXPECT_EQ(world.notes.take(), Lines{"down 0.1"});
  EXPECT_EQ(world.state(), State::kRecovering);
  world.ready();
  EXPECT_EQ(world.state(), State::kRecovering) << "its words count no more";
  world.supervisor.on_dying(0, world.incarnation());
  world.pass(seconds(59));
  EXPECT_TRUE(world.runner.processes[0].signals.empty());
  world.pass(seconds(1));
  EXPECT_EQ(world.runner.processes[0].signals, std::vector<int>{SIGKILL});
  EXPECT_EQ(world.notes.take(), Lines{"doomed 0"});
  world.pass(seconds(5));
  EXPECT_EQ(world.notes.take(), Lines{"stuck 0"});
  world.die();
  EXPECT_EQ(world.status().last_error,
            "killed by signal 9 (SIGKILL): its end had begun and took longer than 60 s");
  world.pass(milliseconds(100));
  world.ready();
  EXPECT_EQ(world.state(), State::kReady);
}

TEST(Supervisor, OneThatDiesInTimeDiedOfWhatItDiedOf) {
  for (const bool draining : {false, true}) {
    World world;
    world.start_and_ready();
    if (draining) {
      world.supervisor.drain(0);
    }
    world.supervisor.on_dying(0, world.incarnation());
    if (draining) {
      world.supervisor.resume(0);
    }
    EXPECT_NE(world.state(), State::kReady);
    world.die();
    EXPECT_EQ(world.status().last_error, "killed by signal 9 (SIGKILL)");
    world.pass(milliseconds(100));
    EXPECT_EQ(world.runner.spawns, 2);
  }
}

TEST(Supervisor, KillsWhatIsOfNoUseAndSaysWhy) {
  World world;
  world.start_and_ready();
  world.supervisor.condemn(0, Incarnation(7), data_loss("of another one"));
  EXPECT_TRUE(world.runner.processes[0].signals.empty());
  world.supervisor.condemn(0, world.incarnation(), data_loss("what it sends is wrong"));
  world.supervisor.condemn(0, world.incarnation(), data_loss("again"));
  EXPECT_EQ(world.runner.processes[0].signals, std::vector<int>{SIGKILL});
  world.die();
  EXPECT_EQ(world.status().last_error, "killed by signal 9 (SIGKILL): what it sends is wrong");
}

TEST(Supervisor, NamesTheWindowOfTheIntensityAsItWasSet) {
  SupervisorOptions options = World::exact();
  options.restart.intensity = {0, milliseconds(1500)};
  World world(1, options);
  world.start_and_ready();
  world.die(os::Exited{70});
  EXPECT_EQ(world.notes.causes.at(0).message(),
            "restarted 0 times within 1.5 s, which is the limit; last: exited with status 70");
}

TEST(Supervisor, GivesUpPastTheIntensityNamingTheLastCause) {
  World world;
  world.start_and_ready();
  for (int i = 0; i < 3; ++i) {
    world.die();
    world.pass(seconds(1));
    world.ready();
  }
  world.die(os::Exited{70});
  EXPECT_EQ(world.state(), State::kFailed);
  ASSERT_EQ(world.notes.causes.size(), 1U);
  EXPECT_EQ(world.notes.causes[0].message(),
            "restarted 3 times within 60 s, which is the limit; last: exited with status 70");
  world.pass(seconds(1000));
  EXPECT_EQ(world.runner.spawns, 4);
  EXPECT_EQ(world.supervisor.failed(), 1U);
}

TEST(Supervisor, StartsAgainForAsLongAsResourcesAreLacking) {
  World world;
  world.start_and_ready();
  world.supervisor.end_first_start();
  world.runner.next_error = resource_exhausted("no process");
  world.die();
  for (int i = 0; i < 100; ++i) {
    world.runner.next_error = resource_exhausted("no process");
    world.pass(seconds(1));
    EXPECT_EQ(world.state(), State::kBackoff);
  }
  EXPECT_EQ(world.status().last_error, "no process");
  world.pass(seconds(1));
  world.ready();
  for (int i = 0; i < 20; ++i) {
    world.supervisor.on_failure(0, world.incarnation(), resource_exhausted("no memory"));
    world.die(os::Exited{75});
    world.pass(seconds(1));
  }
  world.ready();
  EXPECT_EQ(world.state(), State::kReady);
  EXPECT_TRUE(world.notes.causes.empty());
}

TEST(Supervisor, AFirstStartDoesNotWaitForResources) {
  World world;
  world.runner.next_error = resource_exhausted("no process");
  world.supervisor.start(0);
  EXPECT_EQ(world.state(), State::kFailed);
  EXPECT_EQ(world.notes.causes.at(0).message(), "no process");
}

// What worked once was neither the wrong file nor the wrong option: something that came later ended
// it, and the next life may be spared that.
TEST(Supervisor, RestartsWhateverAChildThatWasReadyExitsWith) {
  World world;
  world.start_and_ready();
  world.die(os::Exited{65});
  EXPECT_EQ(world.state(), State::kBackoff);
  world.pass(seconds(1));
  world.ready();
  world.die(os::Exited{64});
  EXPECT_EQ(world.state(), State::kBackoff);
  world.pass(seconds(1));
  EXPECT_EQ(world.incarnation(), Incarnation(3));
  world.die(os::Exited{78});
  EXPECT_EQ(world.state(), State::kBackoff) << "also before it is ready again";
  world.runner.next_error = not_found("no such program");
  world.pass(seconds(1));
  EXPECT_EQ(world.state(), State::kFailed) << "only the intensity ends it";
  EXPECT_NE(world.notes.causes.at(0).message().find("which is the limit"), std::string::npos);
}

TEST(Supervisor, LetsTheFirstStartFailAtOnce) {
  World world;
  world.supervisor.start(0);
  world.supervisor.on_failure(0, Incarnation(1), resource_exhausted("no memory for KV"));
  world.die(os::Exited{75});
  EXPECT_EQ(world.state(), State::kFailed);
  EXPECT_EQ(world.notes.causes.at(0).code(), Code::kResourceExhausted);
  EXPECT_EQ(world.notes.causes.at(0).message(), "exited with status 75: no memory for KV");
  EXPECT_EQ(world.notes.deaths.at(0).cause, "no memory for KV");
}

TEST(Supervisor, BehindTheFirstStartRestartsWhatWasNeverReady) {
  for (const int status : {65, 75}) {
    World world;
    world.supervisor.end_first_start();
    world.supervisor.start(0);
    world.die(os::Exited{status});
    EXPECT_EQ(world.state(), State::kBackoff);
    world.runner.next_error = not_found("no such program");
    world.pass(seconds(1));
    EXPECT_EQ(world.state(), State::kBackoff);
  }
}

TEST(Supervisor, TriesAFailedSpawnAgain) {
  World world;
  world.start_and_ready();
  world.die();
  world.runner.next_error = resource_exhausted("too many processes");
  world.pass(milliseconds(100));
  EXPECT_EQ(world.state(), State::kBackoff);
  EXPECT_EQ(world.status().last_error, "too many processes");
  world.pass(milliseconds(200));
  EXPECT_EQ(world.state(), State::kStarting);
}

TEST(Supervisor, DoesNotTryARefusedSpawnAgain) {
  World world;
  world.runner.next_error = not_found("no such program");
  world.supervisor.start(0);
  EXPECT_EQ(world.state(), State::kFailed);
  EXPECT_EQ(world.notes.causes.at(0).message(), "no such program");
}

TEST(Supervisor, KillsAStartThatMakesNoProgress) {
  World world;
  world.supervisor.start(0);
  world.pass(seconds(19));
  world.supervisor.on_progress(0, Incarnation(1));
  world.pass(seconds(19));
  EXPECT_TRUE(world.runner.processes[0].signals.empty()) << "progress counts, not time";
  world.pass(seconds(1));
  EXPECT_EQ(world.runner.processes[0].signals, std::vector<int>{SIGKILL});
  world.ready();
  EXPECT_EQ(world.state(), State::kLoading) << "the word of a condemned process";
  world.die();
  EXPECT_EQ(world.state(), State::kFailed);
  EXPECT_NE(world.notes.causes.at(0).message().find("no sign of progress for 20 s"),
            std::string::npos);
}

TEST(Supervisor, KillsAHungChildAndStartsItsSuccessor) {
  World world;
  world.start_and_ready();
  world.supervisor.on_hung(0, Incarnation(1), "no heartbeat");
  EXPECT_EQ(world.state(), State::kRecovering);
  EXPECT_EQ(world.runner.processes[0].signals, std::vector<int>{SIGKILL});
  EXPECT_EQ(world.runner.spawns, 1) << "not before it is reaped";
  world.die();
  EXPECT_EQ(world.status().last_error, "killed by signal 9 (SIGKILL): it hangs: no heartbeat");
  world.pass(milliseconds(100));
  EXPECT_EQ(world.state(), State::kStarting);
}

TEST(Supervisor, TellsOfAProcessThatSurvivesSigkill) {
  World world;
  world.start_and_ready();
  static_cast<void>(world.notes.take());
  world.supervisor.on_hung(0, Incarnation(1), "no heartbeat");
  EXPECT_EQ(world.notes.take(), (Lines{"down 0.1", "doomed 0"}));
  world.pass(seconds(5));
  EXPECT_EQ(world.notes.take(), (Lines{"stuck 0"})) << "doomed once";
  EXPECT_EQ(world.runner.spawns, 1);
}

TEST(Supervisor, IgnoresReportsOfEarlierIncarnations) {
  World world;
  world.start_and_ready();
  world.die();
  world.pass(milliseconds(100));
  static_cast<void>(world.notes.take());
  world.supervisor.on_ready(0, Incarnation(1));
  world.supervisor.on_hung(0, Incarnation(1), "late");
  Death stale;
  stale.incarnation = Incarnation(1);
  world.supervisor.on_exit(stale);
  EXPECT_EQ(world.state(), State::kStarting);
  EXPECT_TRUE(world.notes.take().empty());
  EXPECT_TRUE(world.runner.processes[0].signals.empty());
}

TEST(Supervisor, TakesARecoveringChildOutOfService) {
  World world;
  world.start_and_ready();
  static_cast<void>(world.notes.take());
  world.supervisor.on_recovering(0, Incarnation(1));
  EXPECT_EQ(world.state(), State::kRecovering);
  world.ready();
  EXPECT_EQ(world.notes.take(), (Lines{"down 0.1", "ready 0.1"}));
  EXPECT_EQ(world.runner.spawns, 1);
}

TEST(Supervisor, DrainsAndResumesWithoutARestart) {
  World world;
  world.start_and_ready();
  static_cast<void>(world.notes.take());
  world.supervisor.drain(0);
  EXPECT_EQ(world.state(), State::kDraining);
  world.ready();
  EXPECT_EQ(world.notes.take(), Lines{"down 0.1"});
  world.supervisor.resume(0);
  EXPECT_EQ(world.state(), State::kReady);
  EXPECT_EQ(world.notes.take(), Lines{"ready 0.1"});
}

TEST(Supervisor, DrainsNothingThatIsNotReadyYet) {
  World world;
  world.supervisor.start(0);
  world.supervisor.drain(0);
  EXPECT_EQ(world.state(), State::kStarting) << "with its deadline";
  world.ready();
  EXPECT_EQ(world.state(), State::kReady);
}

TEST(Supervisor, BringsADrainedSlotBackAfterADeath) {
  World world;
  world.start_and_ready();
  world.supervisor.drain(0);
  world.die();
  EXPECT_EQ(world.state(), State::kBackoff);
  world.supervisor.drain(0);
  EXPECT_EQ(world.state(), State::kBackoff);
  world.pass(seconds(100));
  EXPECT_EQ(world.state(), State::kStarting);
}

TEST(Supervisor, KeepsSlotsApart) {
  World world(2);
  world.start_and_ready(0);
  world.start_and_ready(1);
  world.die(os::Signaled{SIGSEGV, true}, 1);
  EXPECT_EQ(world.state(0), State::kReady);
  EXPECT_EQ(world.state(1), State::kBackoff);
  EXPECT_EQ(world.notes.deaths.at(0).slot, 1U);
  EXPECT_TRUE(world.notes.deaths.at(0).was_ready);
}

}  // namespace
}  // namespace phalanx::supervise
