// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <new>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "journal_walk.h"

namespace phalanx::front {
namespace {

constexpr std::size_t kPlaces = 3;

struct Shared {
  std::array<Truth, kPlaces> truth;
  std::atomic<bool> started = false;
};

// Memory that a child and its parent see.
class SharedTruth {
 public:
  SharedTruth()
      : memory_(::mmap(
            nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        shared_(new (memory_) Shared) {}
  SharedTruth(const SharedTruth&) = delete;
  SharedTruth& operator=(const SharedTruth&) = delete;
  ~SharedTruth() { ::munmap(memory_, sizeof(Shared)); }

  Shared* operator->() const { return shared_; }

 private:
  void* memory_;
  Shared* shared_;
};

// Runs `work` in a child, which ends behind it without more ado.
pid_t fork_to(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(0);
  }
  return child;
}

bool still_runs(pid_t child) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

// What a connection needs to go on is there again in the memory of the next front.
void expect_to_go_on(const http::Resumption& left, const Truth& truth) {
  const TestMemory next = TestMemory::make(1, 100);
  const auto memory = next.adopt();
  const auto journal = memory->go_on(0, truth.connection, left, truth.received, truth.sent);
  ASSERT_NE(journal, nullptr);
  ASSERT_FALSE(journal->lost());
  std::string problem;
  const auto again = read_and_compare(next.memfd.fd(), 0, truth, &problem);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(problem, "");
  EXPECT_EQ(again->state, left.state);
}

struct Deaths {
  int readable = 0;
  int unreadable = 0;
};

// Children work at random until they are killed at random.
Deaths kill_children(int count, std::size_t blocks, bool memory_is_short) {
  Deaths deaths;
  std::mt19937_64 random(static_cast<std::uint64_t>(count));
  for (int i = 0; i < count; ++i) {
    const std::uint64_t seed = random();
    const TestMemory test = TestMemory::make(kPlaces, blocks);
    SharedTruth shared;
    const pid_t child = fork_to([&] {
      const auto memory = test.adopt();
      JournalWalk walk(*memory, shared->truth, memory_is_short);
      for (std::uint64_t step = 0;; ++step) {
        walk.random_step(seed + step);
        shared->started = true;
      }
    });
    while (!shared->started && still_runs(child)) {
      std::this_thread::yield();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    ::kill(child, SIGKILL);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "seed " << seed;
    for (std::size_t place = 0; place < kPlaces; ++place) {
      std::string problem;
      const auto left = read_and_compare(test.memfd.fd(), place, shared->truth[place], &problem);
      EXPECT_EQ(problem, "") << "seed " << seed;
      ++(left ? deaths.readable : deaths.unreadable);
      if (left && i % 16 == 0) {
        expect_to_go_on(*left, shared->truth[place]);
      }
    }
  }
  return deaths;
}

TEST(JournalDeaths, WhoIsKilledLeavesAllThatItsSocketsDoNotHave) {
  const Deaths deaths = kill_children(500, 100, false);
  EXPECT_GT(deaths.readable, 500);
  EXPECT_GT(deaths.unreadable, 0);
}

TEST(JournalDeaths, WhereMemoryIsShortNothingWrongIsLeft) {
  const Deaths deaths = kill_children(200, 5, true);
  EXPECT_GT(deaths.readable, 30);
  EXPECT_GT(deaths.unreadable, 30);
}

// Every way in which a journal comes to a block, leaves one or ends, with as few bytes as that
// takes; `bulk` runs what is only on the way there.
void work_step_by_step(JournalWalk& walk, const std::function<void(std::function<void()>)>& bulk) {
  constexpr std::size_t kFirst = 0;
  constexpr std::size_t kOther = 1;
  walk.open(kFirst);
  walk.receive(kFirst, 10);
  walk.publish(kFirst, 3);
  walk.render(kFirst, 20);
  walk.publish(kFirst, 0);
  walk.send(kFirst, 5);
  walk.render(kFirst, 10);
  walk.publish(kFirst, 7);  // all is read
  walk.open(kOther);
  walk.receive(kOther, 20);
  walk.send(kFirst, 100);
  walk.receive(kFirst, 20);
  walk.render(kFirst, 10);  // all was sent
  walk.publish(kFirst, 0);
  walk.render(kOther, 10);
  walk.publish(kOther, 20);
  walk.send(kFirst, 100);
  walk.publish(kFirst, 0);
  bulk([&] {
    walk.receive(kFirst, kTestPayloadBytes - 25);
    walk.render(kFirst, kTestPayloadBytes - 5);
    walk.publish(kFirst, 0);
  });
  walk.receive(kFirst, 10);
  walk.render(kFirst, 10);
  walk.publish(kFirst, 1);
  bulk([&] {
    walk.send(kFirst, kTestPayloadBytes);
    walk.publish(kFirst, kTestPayloadBytes - 11);
  });
  walk.publish(kFirst, 10);  // the first blocks are over
  walk.receive(kOther, 10);
  walk.render(kOther, 10);
  walk.publish(kOther, 0);
  walk.close(kFirst);
  walk.open(kFirst);
  walk.render(kOther, 10);
  walk.receive(kFirst, 10);
  walk.publish(kFirst, 0);
  walk.publish(kOther, 0);
  walk.close(kOther);
  walk.close(kFirst);
}

// Goes through a traced child one instruction at a time, but where the child has asked not to. The
// child asks by SIGUSR1, again for the contrary.
class Steps {
 public:
  explicit Steps(pid_t child) : child_(child) {}

  // False when the child has ended, or is about to end by a signal.
  bool next() {
    const auto request = stepping_ ? PTRACE_SINGLESTEP : PTRACE_CONT;
    int status = -1;
    if (::ptrace(request, child_, nullptr, nullptr) != 0 ||
        ::waitpid(child_, &status, 0) != child_ || !WIFSTOPPED(status)) {
      came_to_its_end_ = WIFEXITED(status) && WEXITSTATUS(status) == 0;
      return false;
    }
    if (WSTOPSIG(status) == SIGUSR1) {
      stepping_ = !stepping_;
      return true;
    }
    return WSTOPSIG(status) == SIGTRAP;
  }

  [[nodiscard]] bool came_to_its_end() const { return came_to_its_end_; }

 private:
  pid_t child_;
  bool stepping_ = false;
  bool came_to_its_end_ = false;
};

// Parent and child on one core hand over to each other several times faster.
void stay_on_one_core() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

// A stopped process has done what one has that is killed there.
TEST(JournalDeaths, AfterEveryInstructionWhatIsLeftIsWhole) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "one thread, and each of its accesses is thousands of instructions";
#endif
  cpu_set_t cores;
  ASSERT_EQ(::sched_getaffinity(0, sizeof cores, &cores), 0);
  stay_on_one_core();
  const TestMemory test = TestMemory::make(kPlaces, 8);
  SharedTruth shared;
  const pid_t child = fork_to([&] {
    const auto memory = test.adopt();
    JournalWalk walk(*memory, shared->truth);
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
      ::_exit(1);
    }
    ::raise(SIGSTOP);
    ::raise(SIGUSR1);
    work_step_by_step(walk, [](const std::function<void()>& work) {
      ::raise(SIGUSR1);
      work();
      ::raise(SIGUSR1);
    });
  });
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (!WIFSTOPPED(status)) {
    GTEST_SKIP() << "no process may be traced here";
  }
  Steps steps(child);
  int count = 0;
  int readable = 0;
  std::string problem;
  while (steps.next() && problem.empty()) {
    ++count;
    for (std::size_t place = 0; place < 2; ++place) {
      const auto left = read_and_compare(test.memfd.fd(), place, shared->truth[place], &problem);
      readable += left ? 1 : 0;
    }
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  ::sched_setaffinity(0, sizeof cores, &cores);
  EXPECT_EQ(problem, "");
  EXPECT_TRUE(steps.came_to_its_end());
  EXPECT_GT(count, 10'000);
  EXPECT_GT(readable, count);
  RecordProperty("instructions", count);
}

}  // namespace
}  // namespace phalanx::front
