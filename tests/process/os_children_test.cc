// SPDX-License-Identifier: Apache-2.0
// Real children: what they inherit, how they end, how their ends are told.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "phalanx/os/child_process.h"
#include "phalanx/os/child_side.h"
#include "phalanx/os/machine.h"
#include "phalanx/os/memfd.h"

#include "support/eventually.h"
#include "support/process_tree.h"
#include "test_child.h"

namespace phalanx::os {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::child_plan;
using test::receive_record;
using test::send_record;

SteadyTime soon() {
  return steady_clock().now() + seconds(10);
}

ChildProcess spawn(const std::string& mode) {
  auto child = ChildProcess::spawn(child_plan(mode));
  EXPECT_TRUE(child) << child.error().message();
  return *std::move(child);
}

int report_self(ControlSocket& socket) {
  sigset_t mask;
  ::sigprocmask(SIG_SETMASK, nullptr, &mask);
  struct sigaction usr1 {};
  ::sigaction(SIGUSR1, nullptr, &usr1);
  std::string environment;
  for (const char* const name :
       {"PHALANX_TEST_VARIABLE", "PHALANX_TEST_SECRET", "PATH", "MALLOC_TEST_"}) {
    const char* const value = std::getenv(name);
    environment += " " + std::string(value != nullptr ? value : "unset");
  }
  send_record(socket,
              std::to_string(open_descriptors()) + " " +
                  std::to_string(::sigismember(&mask, SIGTERM)) + " " +
                  (usr1.sa_handler == SIG_DFL ? "default" : "ignored") + environment);
  return 0;
}

int fill_memory(ControlSocket& socket) {
  ControlMessage message = receive_record(socket);
  const Memfd memory = *Memfd::adopt(std::move(message.fds.at(0)), 8192);
  std::memset(memory.map(Access::kReadWrite)->data(), 0x42, 8192);
  send_record(socket, "filled");
  return 0;
}

// A child whose own child lives by one thread that watches for hang-ups, without the parent-death
// signal.
int be_parent(ControlSocket& socket) {
  ChildProcess grandchild = spawn("watch hang-ups");
  ControlMessage pipe = receive_record(socket);
  send_record(grandchild.control(), "pipe", {pipe.fds.at(0).get()});
  static_cast<void>(receive_record(grandchild.control()));
  send_record(socket, std::to_string(grandchild.pid()));
  ::pause();
  return 0;
}

int watch_hangups(ControlSocket& socket) {
  ControlMessage pipe = receive_record(socket);
  const auto watch = HangupWatch::start({socket.fd(), pipe.fds.at(0).get()});
  send_record(socket, "watching");
  for (;;) {
    ::pause();
  }
}

int obey_parent_death(ControlSocket& socket) {
  const bool entered = enter_child("obedient").has_value();
  send_record(socket, entered ? "entered" : "failed");
  for (;;) {
    ::pause();
  }
}

int be_parent_of_obedient(ControlSocket& socket) {
  ChildProcess grandchild = spawn("obey parent death");
  static_cast<void>(receive_record(grandchild.control()));
  send_record(socket, std::to_string(grandchild.pid()));
  // Its socket stays open elsewhere, so that only the signal can end it.
  static_cast<void>(grandchild.control().release().release());
  ::pause();
  return 0;
}

const test::ChildModes kModes{
    {"exit 65", [](ControlSocket&) { return 65; }},
    {"abort", [](ControlSocket&) -> int { std::abort(); }},
    {"wait",
     [](ControlSocket& socket) {
       send_record(socket, "here");
       return ::pause();
     }},
    {"ignore SIGTERM",
     [](ControlSocket& socket) {
       std::signal(SIGTERM, SIG_IGN);
       send_record(socket, "here");
       for (;;) {
         ::pause();
       }
       return 0;
     }},
    {"ignore group signals later",
     [](ControlSocket& socket) {
       send_record(socket, "here");
       static_cast<void>(receive_record(socket));
       ignore_group_signals();
       sigset_t mask;
       ::sigprocmask(SIG_SETMASK, nullptr, &mask);
       send_record(socket, ::sigisemptyset(&mask) != 0 ? "unblocked" : "blocked");
       static_cast<void>(receive_record(socket));
       return 7;
     }},
    {"report self", report_self},
    {"fill memory", fill_memory},
    {"be parent", be_parent},
    {"watch hang-ups", watch_hangups},
    {"obey parent death", obey_parent_death},
    {"be parent of obedient", be_parent_of_obedient},
    {"check parent",
     [](ControlSocket& socket) {
       const pid_t named = std::stoi(receive_record(socket).bytes);
       return check_parent(named) ? 0 : kParentGoneStatus;
     }},
};

TEST(ChildProcess, TellsHowItEnded) {
  EXPECT_EQ(spawn("exit 65").wait_exit(soon()), ExitReason(Exited{65}));
  ChildProcess killed = spawn("wait");
  EXPECT_FALSE(killed.poll_exit());
  ASSERT_TRUE(killed.signal(SIGKILL));
  EXPECT_EQ(killed.wait_exit(soon()), ExitReason(Signaled{SIGKILL, false}));
  EXPECT_EQ(killed.poll_exit(), ExitReason(Signaled{SIGKILL, false})) << "and says so again";
  EXPECT_TRUE(killed.signal(SIGTERM)) << "to nobody, least of all a successor of the pid";
  EXPECT_FALSE(is_crash(*killed.poll_exit()));
}

TEST(ChildProcess, TellsACrashFromAKill) {
  const auto reason = spawn("abort").wait_exit(soon());
  ASSERT_TRUE(reason);
  EXPECT_TRUE(is_crash(*reason));
  EXPECT_EQ(std::get<Signaled>(*reason).signal, SIGABRT);
}

TEST(ChildProcess, InheritsNothingButWhatItShould) {
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
  std::signal(SIGUSR1, SIG_IGN);
  const Pipe pipe = *make_pipe();
  ::setenv("PHALANX_TEST_SECRET", "not for children", 1);
  ::setenv("MALLOC_TEST_", "malloc", 1);
  SpawnPlan plan = child_plan("report self");
  plan.environment = {"PHALANX_TEST_VARIABLE=set"};
  ChildProcess child = *ChildProcess::spawn(plan);
  const std::string report = receive_record(child.control()).bytes;
  ::sigprocmask(SIG_UNBLOCK, &blocked, nullptr);
  std::signal(SIGUSR1, SIG_DFL);
  ::unsetenv("PHALANX_TEST_SECRET");
  ::unsetenv("MALLOC_TEST_");
  EXPECT_EQ(report, "4 0 default set unset unset malloc");
}

TEST(ChildProcess, IsEndedByNoSignalForTheGroupBeforeItIgnoresThem) {
  SpawnPlan plan = child_plan("ignore group signals later");
  plan.holds_group_signals = true;
  ChildProcess child = *ChildProcess::spawn(plan);
  const auto tell_group = [&] {
    for (const int number : {SIGHUP, SIGINT, SIGTERM}) {
      ASSERT_TRUE(child.signal(number));
    }
  };
  tell_group();
  EXPECT_EQ(receive_record(child.control()).bytes, "here");
  send_record(child.control(), "ignore them");
  EXPECT_EQ(receive_record(child.control()).bytes, "unblocked");
  tell_group();
  send_record(child.control(), "end");
  EXPECT_EQ(child.wait_exit(soon()), ExitReason(Exited{7}));
}

TEST(ChildProcess, RefusesWhatCannotBeStarted) {
  SpawnPlan plan;
  EXPECT_EQ(ChildProcess::spawn(plan).error().code(), Code::kInvalidArgument);
  plan.arguments = {std::string("a\0b", 3)};
  EXPECT_EQ(ChildProcess::spawn(plan).error().code(), Code::kInvalidArgument);
  plan.arguments = {"a"};
  plan.program = "/nowhere/phalanxd";
  EXPECT_EQ(ChildProcess::spawn(plan).error().code(), Code::kNotFound);
}

// Whoever spawns holds a lock that reaping needs too: it must not wait for the end of a process.
TEST(ChildProcess, OneThatCannotBeWatchedIsEndedAndLeftToTheReaper) {
  const int first = ::dup(0);
  const int second = ::dup(0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit ends_of_the_control_socket{static_cast<rlim_t>(second) + 1, before.rlim_max};
  ::close(first);
  ::close(second);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &ends_of_the_control_socket), 0);
  const auto child = ChildProcess::spawn(child_plan("wait"));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().code(), Code::kResourceExhausted) << child.error().message();
  EXPECT_TRUE(test::eventually([] { return reap_adopted() == 1; }, seconds(10)));
}

TEST(ChildProcess, TellsOfAStopAndDiesStopped) {
  ChildProcess child = spawn("wait");
  static_cast<void>(receive_record(child.control()));
  EXPECT_FALSE(child.take_stopped());
  ASSERT_TRUE(child.signal(SIGSTOP));
  EXPECT_TRUE(test::eventually([&] { return child.take_stopped(); }, seconds(5)));
  EXPECT_FALSE(child.take_stopped());
  EXPECT_FALSE(child.poll_exit());
  ASSERT_TRUE(child.signal(SIGKILL));
  EXPECT_EQ(child.wait_exit(soon()), ExitReason(Signaled{SIGKILL, false}));
}

TEST(ChildProcess, IsKilledAndReapedWithItsOwner) {
  pid_t pid = 0;
  {
    ChildProcess child = spawn("ignore SIGTERM");
    static_cast<void>(receive_record(child.control()));
    pid = child.pid();
    ASSERT_TRUE(child.signal(SIGTERM));
    EXPECT_TRUE(test::is_alive(pid));
  }
  EXPECT_FALSE(test::is_alive(pid));
  EXPECT_TRUE(test::zombies(::getpid()).empty());
}

TEST(ChildProcess, SharesMemoryByDescriptor) {
  const Memfd memory = *Memfd::create("test", 8192);
  ChildProcess child = spawn("fill memory");
  send_record(child.control(), "memory", {memory.fd()});
  EXPECT_EQ(receive_record(child.control()).bytes, "filled");
  EXPECT_EQ(memory.map(Access::kReadOnly)->data()[8191], std::byte{0x42});
}

TEST(ChildProcess, ClosesItsSocketWhenItDies) {
  ChildProcess child = spawn("exit 65");
  const auto end = child.control().receive_until(soon());
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code(), Code::kUnavailable);
  EXPECT_EQ(*child.control().send("late"), ControlSent::kClosed);
}

TEST(ChildProcess, ComparesItsParent) {
  ChildProcess right = spawn("check parent");
  send_record(right.control(), std::to_string(::getpid()));
  EXPECT_EQ(right.wait_exit(soon()), ExitReason(Exited{0}));
  ChildProcess wrong = spawn("check parent");
  send_record(wrong.control(), "1");
  EXPECT_EQ(wrong.wait_exit(soon()), ExitReason(Exited{kParentGoneStatus}));
}

// The parent dies by SIGKILL: its child ends by the hang-up of the control socket, and this process
// gets and reaps the orphan.
TEST(Descendants, EndWithTheirParentByHangup) {
  ASSERT_TRUE(become_subreaper());
  const Pipe lifeline = *make_pipe();
  ChildProcess parent = spawn("be parent");
  send_record(parent.control(), "pipe", {lifeline.read.get()});
  const pid_t grandchild = std::stoi(receive_record(parent.control()).bytes);
  ASSERT_TRUE(test::is_alive(grandchild));
  ASSERT_TRUE(parent.signal(SIGKILL));
  EXPECT_TRUE(parent.wait_exit(soon()));
  EXPECT_TRUE(test::wait_until_dead({grandchild}, seconds(1)).empty());
  EXPECT_EQ(reap_adopted(), 1);
  EXPECT_TRUE(living_adopted().empty());
  ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

TEST(Descendants, EndWithTheLeadersPipe) {
  Pipe lifeline = *make_pipe();
  ChildProcess child = spawn("watch hang-ups");
  send_record(child.control(), "pipe", {lifeline.read.get()});
  static_cast<void>(receive_record(child.control()));
  send_record(child.control(), "a record that nobody reads ends nothing");
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(child.poll_exit());
  lifeline.write.reset();
  EXPECT_EQ(child.wait_exit(soon()), ExitReason(Exited{kParentGoneStatus}));
}

TEST(Descendants, EndWithTheirParentBySignal) {
  ChildProcess parent = spawn("be parent of obedient");
  const pid_t grandchild = std::stoi(receive_record(parent.control()).bytes);
  ASSERT_TRUE(parent.signal(SIGKILL));
  EXPECT_TRUE(parent.wait_exit(soon()));
  EXPECT_TRUE(test::wait_until_dead({grandchild}, seconds(1)).empty());
}

// What an orphan holds, memory above all, is free only when it is gone.
TEST(Descendants, AreListedWhileTheyLiveWithoutTheirParent) {
  ASSERT_TRUE(become_subreaper());
  const Pipe lifeline = *make_pipe();
  ChildProcess parent = spawn("be parent");
  send_record(parent.control(), "pipe", {lifeline.read.get()});
  const pid_t grandchild = std::stoi(receive_record(parent.control()).bytes);
  ASSERT_EQ(::kill(grandchild, SIGSTOP), 0);
  EXPECT_TRUE(living_adopted().empty()) << "it has its parent, which is an own child";
  ASSERT_TRUE(parent.signal(SIGKILL));
  EXPECT_TRUE(parent.wait_exit(soon()));
  EXPECT_EQ(living_adopted(), std::vector<pid_t>{grandchild});
  ASSERT_EQ(::kill(grandchild, SIGKILL), 0);
  EXPECT_TRUE(test::eventually([] { return living_adopted().empty(); }, seconds(5)));
  ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

// A command that runs a child of its own.
SpawnPlan command_plan(const std::string& script) {
  SpawnPlan plan;
  plan.program = "/bin/sh";
  plan.arguments = {"sh", "-c", script};
  plan.environment = {"PATH=/usr/bin:/bin"};
  plan.leads_group = true;
  return plan;
}

TEST(ChildGroup, HasEndedWhenNobodyOfItIsLeft) {
  ASSERT_TRUE(become_subreaper());
  ChildProcess child = *ChildProcess::spawn(command_plan("sleep 60 & exit 3"));
  EXPECT_EQ(child.wait_exit(soon()), ExitReason(Exited{3}));
  EXPECT_EQ(::kill(-child.pid(), 0), -1) << "what it left behind lives on";
  EXPECT_FALSE(child.leaves_group());
  ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

TEST(ChildGroup, IsWhatASignalIsFor) {
  ASSERT_TRUE(become_subreaper());
  // The shell waits for its child, and would go on if only that were killed.
  ChildProcess child = *ChildProcess::spawn(command_plan("sleep 60; sleep 60; exit 3"));
  ASSERT_TRUE(
      test::eventually([&] { return test::descendants(child.pid()).size() == 1; }, seconds(10)));
  ASSERT_TRUE(child.signal(SIGKILL));
  EXPECT_EQ(child.wait_exit(soon()), ExitReason(Signaled{SIGKILL, false}));
  EXPECT_EQ(::kill(-child.pid(), 0), -1);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

TEST(ReapAdopted, LeavesOwnChildrenAlone) {
  ChildProcess child = spawn("exit 65");
  ASSERT_TRUE(test::eventually([&] { return !test::is_alive(child.pid()); }, seconds(5)));
  EXPECT_EQ(reap_adopted(), 0);
  EXPECT_EQ(child.poll_exit(), ExitReason(Exited{65}));
}

TEST(Measurement, SpawnToFirstRecord) {
  std::vector<double> times;
  for (int i = 0; i < 30; ++i) {
    const SteadyTime start = steady_clock().now();
    ChildProcess child = spawn("wait");
    static_cast<void>(receive_record(child.control()));
    times.push_back(to_milliseconds(steady_clock().now() - start));
  }
  std::sort(times.begin(), times.end());
  RecordProperty("spawn_to_first_record_ms_p50", std::to_string(times[15]));
  std::printf("spawn to first record: p50 %.2f ms, max %.2f ms\n", times[15], times.back());
  EXPECT_LT(times[15], 1000.0);
}

}  // namespace
}  // namespace phalanx::os

int main(int argc, char** argv) {
  phalanx::test::play_child(argc, argv, phalanx::os::kModes);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
