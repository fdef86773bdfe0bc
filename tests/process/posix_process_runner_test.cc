// SPDX-License-Identifier: Apache-2.0
// The supervisor's hands on real processes: introduction, records, stops, deaths, restarts.
#include "phalanx/supervise/posix_process_runner.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <map>

#include <gtest/gtest.h>

#include "phalanx/base/check.h"
#include "phalanx/obs/log.h"
#include "phalanx/os/child_side.h"
#include "phalanx/supervise/supervisor.h"

#include "support/process_tree.h"
#include "test_child.h"

namespace phalanx::supervise {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::receive_record;
using test::send_record;
using Lines = std::vector<std::string>;

// Uses up the stack; the result keeps the calls from being turned into a loop.
// NOLINTNEXTLINE(misc-no-recursion)
int overflow(int depth) {
  volatile char page[4096];
  page[depth % 4096] = 1;
  if (page[depth % 4096] != 1) {
    return depth;  // never; a compiler that sees no end refuses the function
  }
  return overflow(depth + 1) + page[(depth + 1) % 4096];
}

// A child as the programs have them: enters, takes its bootstrap, holds its lifeline, does as told.
int serve(os::ControlSocket& socket) {
  if (!os::enter_child("test-child")) {
    return 1;
  }
  os::ControlMessage bootstrap = receive_record(socket);
  const os::Lifeline lifeline = *os::Lifeline::adopt(std::move(bootstrap.fds.at(0)));
  const auto owner = os::LifelineOwner::acquire(lifeline);
  if (!os::record_crashes(lifeline.crash_record())) {
    return 1;
  }
  obs::LogOptions log;
  log.role = "child";
  log.flight = lifeline.flight_area();
  obs::start_log(log);
  send_record(socket, "ready " + bootstrap.bytes + " " + std::to_string(bootstrap.fds.size()));
  for (;;) {
    const std::string order = receive_record(socket).bytes;
    if (order == "stop") {
      return 0;
    }
    if (order == "fail") {
      obs::log_error("cannot_go_on", {{"why", "told so"}});
      send_record(socket, "failed: told so");
      return 70;
    }
    if (order == "crash") {
      obs::log_warn("crashing");
      std::abort();
    }
    if (order == "fault") {
      *reinterpret_cast<volatile int*>(bootstrap.bytes.size() * 0) = 1;
    }
    if (order == "talk too long") {
      const std::string record(os::kMaxControlRecordBytes + 1, 'x');
      PHALANX_CHECK(::send(socket.fd(), record.data(), record.size(), 0) > 0, "it fits");
      send_record(socket, "said it");
    }
    if (order == "overflow") {
      return overflow(1);
    }
  }
}

const test::ChildModes kModes{{"serve", serve}};

// Hosts children and writes down what it hears.
class Host final : public ChildHost {
 public:
  explicit Host(os::EventLoop& event_loop) : loop(event_loop) {}

  os::SpawnPlan plan(std::size_t, Incarnation) override { return test::child_plan(mode); }
  Result<Bootstrap> bootstrap(std::size_t slot, Incarnation incarnation, pid_t pid) override {
    pids.push_back(pid);
    if (bootstrap_error) {
      return *bootstrap_error;
    }
    Bootstrap bootstrap;
    bootstrap.record = std::to_string(slot) + "." + std::to_string(incarnation.value());
    bootstrap.fds = {extra.read.get()};
    return bootstrap;
  }
  void ask_to_stop(std::size_t slot) override { note("ask " + std::to_string(slot)); }
  void on_record(std::size_t slot, Incarnation, Result<os::ControlMessage> received) override {
    note("record " + std::to_string(slot) + " " +
         (received ? received->bytes : "lost: " + received.error().message()));
  }
  void on_dying(std::size_t, Incarnation) override { ++dying; }
  void on_stopped_by_signal(std::size_t slot, Incarnation) override {
    note("stopped " + std::to_string(slot));
  }
  void on_exit(const Death& death) override {
    deaths.push_back(death);
    note("exit " + std::to_string(death.slot) + "." + std::to_string(death.incarnation.value()));
  }

  void note(const std::string& line) {
    lines.push_back(line);
    if (on_note) {
      on_note(line);
    }
  }

  // Turns the loop until `count` lines are noted, at most ten seconds.
  void run_until(std::size_t count) {
    const auto limit = loop.call_after(seconds(10), [this] { loop.stop(); });
    const auto tick = loop.call_every(milliseconds(1), [this, count] {
      if (lines.size() >= count) {
        loop.stop();
      }
    });
    loop.run();
    ASSERT_GE(lines.size(), count);
  }

  os::EventLoop& loop;
  std::string mode = "serve";
  std::optional<Error> bootstrap_error;
  os::Pipe extra = *os::make_pipe();
  std::function<void(const std::string&)> on_note;
  Lines lines;
  std::vector<Death> deaths;
  std::vector<pid_t> pids;
  std::atomic<int> dying{0};
};

class PosixProcessRunnerTest : public testing::Test {
 protected:
  void start(std::size_t slot = 0, std::uint32_t incarnation = 1) {
    const auto pid = runner_.spawn(slot, Incarnation(incarnation));
    ASSERT_TRUE(pid) << pid.error().message();
    host_.run_until(host_.lines.size() + 1);
  }
  void tell(const std::string& order, std::size_t slot = 0) {
    ASSERT_EQ(*runner_.send(slot, order, {}), os::ControlSent::kQueued);
  }

  os::EventLoop loop_;
  Host host_{loop_};
  PosixProcessRunner runner_{2, loop_, host_};
};

TEST_F(PosixProcessRunnerTest, IntroducesAChildAndHearsIt) {
  start();
  EXPECT_EQ(host_.lines, Lines{"record 0 ready 0.1 2"});
  EXPECT_EQ(runner_.pids(), host_.pids);
  ASSERT_NE(runner_.lifeline(0), nullptr);
  EXPECT_EQ(runner_.lifeline(1), nullptr);
}

TEST_F(PosixProcessRunnerTest, TellsAnEndInGoodOrderWithoutAnAlarm) {
  start();
  tell("stop");
  host_.run_until(2);
  EXPECT_EQ(host_.lines.back(), "exit 0.1");
  EXPECT_EQ(host_.deaths.at(0).reason, os::ExitReason(os::Exited{0}));
  EXPECT_EQ(host_.dying, 0);
  EXPECT_TRUE(runner_.pids().empty());
  EXPECT_EQ(*runner_.send(0, "late", {}), os::ControlSent::kClosed);
}

TEST_F(PosixProcessRunnerTest, GivesTheLastRecordBeforeTheDeath) {
  start();
  tell("fail");
  host_.run_until(3);
  EXPECT_EQ(host_.lines, (Lines{"record 0 ready 0.1 2", "record 0 failed: told so", "exit 0.1"}));
  EXPECT_EQ(host_.deaths.at(0).reason, os::ExitReason(os::Exited{70}));
}

TEST_F(PosixProcessRunnerTest, TellsThatARecordIsLost) {
  start();
  tell("talk too long");
  host_.run_until(3);
  EXPECT_TRUE(host_.lines.at(1).starts_with("record 0 lost: a control record exceeds"))
      << host_.lines.at(1);
  EXPECT_EQ(host_.lines.at(2), "record 0 said it");
}

TEST_F(PosixProcessRunnerTest, KeepsTheLastLogLinesOfACrash) {
  start();
  tell("crash");
  host_.run_until(2);
  const Death& death = host_.deaths.at(0);
  EXPECT_TRUE(os::is_crash(death.reason));
  ASSERT_FALSE(death.lines.empty());
  EXPECT_TRUE(death.lines.back().ends_with("crashing")) << death.lines.back();
  EXPECT_EQ(host_.dying, 1);
}

TEST_F(PosixProcessRunnerTest, TellsWhoseDoingADeathWas) {
  struct Case {
    const char* order;         // what the child is told, or
    std::vector<int> signals;  // what is sent to it from outside
    DeathOrigin origin;
  };
  std::uint32_t incarnation = 0;
  for (const Case& one : std::vector<Case>{{"crash", {}, DeathOrigin::kOwn},
                                           {"fault", {}, DeathOrigin::kOwn},
                                           {"overflow", {}, DeathOrigin::kOwn},
                                           {"fail", {}, DeathOrigin::kOwn},
                                           {"", {SIGSEGV}, DeathOrigin::kSent},
                                           {"", {SIGABRT}, DeathOrigin::kSent},
                                           {"", {SIGKILL}, DeathOrigin::kSent}}) {
    SCOPED_TRACE(std::string(one.order) + " " + std::to_string(one.signals.size()));
    host_.lines.clear();
    host_.deaths.clear();
    start(0, ++incarnation);
    if (one.signals.empty()) {
      tell(one.order);
    }
    for (const int signal : one.signals) {
      ASSERT_EQ(::kill(host_.pids.back(), signal), 0);
    }
    host_.run_until(one.order == std::string("fail") ? 3 : 2);
    ASSERT_EQ(host_.deaths.size(), 1U);
    EXPECT_EQ(host_.deaths[0].origin, one.origin) << describe(host_.deaths[0]);
  }
}

TEST_F(PosixProcessRunnerTest, KnowsThatWhatItKillsStoodStill) {
  start();
  ASSERT_EQ(::kill(host_.pids.back(), SIGSTOP), 0);
  host_.run_until(2);
  runner_.signal(0, SIGKILL);
  host_.run_until(3);
  EXPECT_EQ(host_.deaths.at(0).origin, DeathOrigin::kStopped);
  host_.lines.clear();
  start(0, 2);
  runner_.signal(0, SIGKILL);
  host_.run_until(2);
  EXPECT_EQ(host_.deaths.at(1).origin, DeathOrigin::kSent);
}

TEST_F(PosixProcessRunnerTest, TellsOfAStop) {
  start();
  runner_.signal(0, SIGSTOP);
  host_.run_until(2);
  EXPECT_EQ(host_.lines.back(), "stopped 0");
  runner_.signal(0, SIGKILL);
  host_.run_until(3);
  EXPECT_EQ(host_.lines.back(), "exit 0.1");
}

TEST_F(PosixProcessRunnerTest, FillsASlotAgainFromInsideTheNewsOfADeath) {
  start();
  host_.on_note = [this](const std::string& line) {
    if (line == "exit 0.1") {
      EXPECT_TRUE(runner_.spawn(0, Incarnation(2)));
    }
  };
  runner_.signal(0, SIGKILL);
  host_.run_until(3);
  EXPECT_EQ(host_.lines.back(), "record 0 ready 0.2 2");
}

TEST_F(PosixProcessRunnerTest, LeavesNothingOfAChildItCannotIntroduce) {
  host_.bootstrap_error = resource_exhausted("no endpoint left");
  const auto pid = runner_.spawn(0, Incarnation(1));
  ASSERT_FALSE(pid);
  EXPECT_EQ(pid.error().message(), "no endpoint left");
  EXPECT_FALSE(test::is_alive(host_.pids.at(0)));
  EXPECT_TRUE(test::zombies(::getpid()).empty());
  host_.bootstrap_error.reset();
  start();
}

// A default stack that no address space has lets every std::thread fail as a limit of threads does.
TEST_F(PosixProcessRunnerTest, LeavesNothingOfAChildThatNoThreadCanWatch) {
  pthread_attr_t before;
  ASSERT_EQ(::pthread_getattr_default_np(&before), 0);
  pthread_attr_t huge = before;
  ASSERT_EQ(::pthread_attr_setstacksize(&huge, std::size_t{1} << 47), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&huge), 0);
  const auto pid = runner_.spawn(0, Incarnation(1));
  ASSERT_EQ(::pthread_setattr_default_np(&before), 0);
  ASSERT_FALSE(pid);
  EXPECT_EQ(pid.error().code(), Code::kResourceExhausted);
  EXPECT_NE(pid.error().message().find("expected a thread"), std::string::npos)
      << pid.error().message();
  EXPECT_FALSE(test::is_alive(host_.pids.at(0)));
  EXPECT_TRUE(test::zombies(::getpid()).empty());
  start();
}

TEST(PosixProcessRunner, TakesItsChildrenWithIt) {
  os::EventLoop loop;
  Host host(loop);
  std::vector<std::size_t> descriptors;
  for (int life = 0; life < 3; ++life) {
    host.lines.clear();
    PosixProcessRunner runner(2, loop, host);
    ASSERT_TRUE(runner.spawn(0, Incarnation(1)));
    ASSERT_TRUE(runner.spawn(1, Incarnation(1)));
    host.run_until(2);
    descriptors.push_back(test::descriptor_count(::getpid()));
  }
  EXPECT_TRUE(test::descendants(::getpid()).empty());
  EXPECT_TRUE(test::zombies(::getpid()).empty());
  EXPECT_EQ(descriptors[1], descriptors[0]) << "a life leaves no descriptor";
  EXPECT_EQ(descriptors[2], descriptors[0]);
}

// The supervisor over real processes: a kill leads to a successor that is ready.
class SupervisedHost final : public SupervisorListener {
 public:
  void on_slot_ready(std::size_t, Incarnation incarnation) override {
    heard.push_back("ready " + std::to_string(incarnation.value()));
  }
  void on_slot_down(std::size_t, Incarnation) override {}
  void on_slot_death(const Death& death) override { heard.push_back(describe(death)); }
  void on_slot_failed(std::size_t, const Error& error) override {
    heard.push_back("failed: " + error.message());
  }
  void on_slot_stopped(std::size_t) override { heard.emplace_back("stopped"); }
  void on_slot_stuck(std::size_t, pid_t) override { heard.emplace_back("stuck"); }
  Lines heard;
};

TEST(SupervisedProcess, ComesBackAfterAKillAndEndsWhenTold) {
  os::EventLoop loop;
  Host host(loop);
  PosixProcessRunner runner(1, loop, host);
  SupervisedHost listener;
  SupervisorOptions options;
  options.restart.backoff.first = milliseconds(5);
  Supervisor supervisor(1, options, runner, listener, steady_clock());
  host.on_note = [&](const std::string& line) {
    if (line.starts_with("record 0 ready")) {
      supervisor.on_ready(0, supervisor.status(0).incarnation);
    } else if (line.starts_with("exit")) {
      supervisor.on_exit(host.deaths.back());
    } else if (line == "ask 0") {
      static_cast<void>(runner.send(0, "stop", {}));
    }
  };
  const auto tick = loop.call_every(milliseconds(1), [&] { supervisor.on_tick(); });
  supervisor.start(0);
  host.run_until(1);
  runner.signal(0, SIGKILL);
  host.run_until(3);
  supervisor.stop(0);
  host.run_until(5);
  EXPECT_EQ(listener.heard,
            (Lines{"ready 1",
                   "killed by signal 9 (SIGKILL)",
                   "ready 2",
                   "exited with status 0",
                   "stopped"}));
  EXPECT_TRUE(supervisor.all_stopped());
}

TEST(Measurement, KillToReadySuccessor) {
  os::EventLoop loop;
  Host host(loop);
  PosixProcessRunner runner(1, loop, host);
  host.on_note = [&](const std::string& line) {
    if (line.starts_with("exit")) {
      static_cast<void>(runner.spawn(0, Incarnation(host.deaths.back().incarnation.value() + 1)));
    }
  };
  ASSERT_TRUE(runner.spawn(0, Incarnation(1)));
  host.run_until(1);
  std::vector<double> times;
  for (std::size_t i = 0; i < 20; ++i) {
    const SteadyTime start = steady_clock().now();
    runner.signal(0, SIGKILL);
    host.run_until(1 + 2 * (i + 1));
    times.push_back(to_milliseconds(steady_clock().now() - start));
  }
  std::sort(times.begin(), times.end());
  RecordProperty("kill_to_ready_ms_p50", std::to_string(times[10]));
  std::printf("kill to ready successor: p50 %.2f ms, max %.2f ms\n", times[10], times.back());
}

}  // namespace
}  // namespace phalanx::supervise

int main(int argc, char** argv) {
  phalanx::test::play_child(argc, argv, phalanx::supervise::kModes);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
