// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/thread_team.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/kernels/float_mode.h"

namespace phalanx::kernels {
namespace {

std::unique_ptr<ThreadTeam> make_team(std::uint32_t size, TeamHooks hooks = {}) {
  auto team = ThreadTeam::create_unpinned(size, hooks);
  EXPECT_TRUE(team.has_value());
  return std::move(team).value();
}

// Waits until `count` has come to `value`; false after ten seconds.
bool reaches(const std::atomic<std::uint32_t>& count, std::uint32_t value) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (count.load() < value) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

TEST(ThreadTeam, RunsEveryTileOnce) {
  const FloatModeScope mode;
  for (const std::uint32_t size : {1U, 2U, 5U}) {
    const auto team = make_team(size);
    for (const std::uint32_t tiles : {0U, 1U, 2U, 7U, 1000U}) {
      for (int again = 0; again < 100; ++again) {
        std::vector<std::atomic<int>> runs(tiles);
        EXPECT_TRUE(team->parallel_for(tiles, [&](std::uint32_t tile, std::uint32_t thread) {
          EXPECT_LT(thread, size);
          runs[tile].fetch_add(1, std::memory_order_relaxed);
        }));
        for (const std::atomic<int>& count : runs) {
          ASSERT_EQ(count.load(), 1);
        }
      }
    }
  }
}

// The first tile ends when all others have run, wherever they were to run.
TEST(ThreadTeam, TakesOverTheTilesOfAThreadThatIsHeldUp) {
  const FloatModeScope mode;
  for (const std::uint32_t size : {2U, 3U}) {
    const auto team = make_team(size);
    for (const std::uint32_t slow : {0U, 30U, 59U}) {
      std::atomic<std::uint32_t> others{0};
      ASSERT_TRUE(team->parallel_for(60, [&](std::uint32_t tile, std::uint32_t /*thread*/) {
        if (tile == slow) {
          EXPECT_TRUE(reaches(others, 59));
        } else {
          ++others;
        }
      }));
    }
  }
}

// The last tile first, so that the one who is held up goes on in order.
TEST(ThreadTeam, TakesOverFromTheEndOfARun) {
  const FloatModeScope mode;
  const auto team = make_team(2);
  std::vector<std::uint32_t> order;  // of the tiles beside tile 0, which are all one thread's
  std::atomic<std::uint32_t> others{0};
  ASSERT_TRUE(team->parallel_for(8, [&](std::uint32_t tile, std::uint32_t /*thread*/) {
    if (tile == 0) {
      EXPECT_TRUE(reaches(others, 7));
    } else {
      order.push_back(tile);
      ++others;
    }
  }));
  EXPECT_EQ(order, (std::vector<std::uint32_t>{4, 5, 6, 7, 3, 2, 1}));
}

// As long as all are at work, nobody leaves its run.
TEST(ThreadTeam, GivesEveryThreadAContiguousRunInOrder) {
  const FloatModeScope mode;
  const auto team = make_team(2);
  std::array<std::atomic<std::uint32_t>, 2> done{};
  ASSERT_TRUE(team->parallel_for(20, [&](std::uint32_t tile, std::uint32_t thread) {
    EXPECT_EQ(tile, thread * 10 + done[thread].load());
    const std::uint32_t turn = ++done[thread];
    EXPECT_TRUE(reaches(done[1 - thread], turn));
  }));
}

// Keeps a thread from running what it is meant to, as a program that has its core does.
class HeldThread {
 public:
  explicit HeldThread(pid_t thread) {
    EXPECT_EQ(::pipe2(pipe_.data(), O_CLOEXEC), 0);
    is_held = false;
    read_end = pipe_[0];
    struct sigaction action {};
    action.sa_handler = [](int) {
      const int saved = errno;
      is_held = true;
      char byte = 0;
      static_cast<void>(::read(read_end, &byte, 1));
      errno = saved;
    };
    ::sigaction(SIGUSR1, &action, &before_);
    EXPECT_EQ(::syscall(SYS_tgkill, ::getpid(), thread, SIGUSR1), 0);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!is_held && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_TRUE(is_held);
  }
  HeldThread(const HeldThread&) = delete;
  HeldThread& operator=(const HeldThread&) = delete;
  ~HeldThread() {
    release();
    ::close(pipe_[0]);
    ::sigaction(SIGUSR1, &before_, nullptr);
  }

  void release() {
    if (pipe_[1] >= 0) {
      ::close(std::exchange(pipe_[1], -1));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  static inline std::atomic<bool> is_held{false};
  static inline std::atomic<int> read_end{-1};
  std::array<int, 2> pipe_{-1, -1};
  struct sigaction before_ {};
};

std::set<pid_t> threads_of_this_process() {
  std::set<pid_t> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    threads.insert(std::stoi(entry.path().filename()));
  }
  return threads;
}

TEST(ThreadTeam, WaitsForNoThreadThatDoesNotRun) {
  const FloatModeScope mode;
  const std::set<pid_t> before = threads_of_this_process();
  const auto team = make_team(2);
  std::set<pid_t> workers = threads_of_this_process();
  for (const pid_t thread : before) {
    workers.erase(thread);
  }
  ASSERT_EQ(workers.size(), 1U);
  HeldThread held(*workers.begin());
  std::atomic<std::uint32_t> is_over{0};
  std::thread watchdog([&] {
    EXPECT_TRUE(reaches(is_over, 1)) << "the held thread was waited for";
    held.release();
  });
  std::vector<std::uint32_t> by_thread(2);
  for (int job = 0; job < 3; ++job) {
    EXPECT_TRUE(team->parallel_for(
        100, [&](std::uint32_t /*tile*/, std::uint32_t thread) { ++by_thread[thread]; }));
  }
  EXPECT_EQ(by_thread, (std::vector<std::uint32_t>{300, 0}));
  is_over = 1;
  watchdog.join();
  // It takes part again.
  std::array<std::atomic<std::uint32_t>, 2> done{};
  EXPECT_TRUE(team->parallel_for(2, [&](std::uint32_t /*tile*/, std::uint32_t thread) {
    ++done[thread];
    EXPECT_TRUE(reaches(done[1 - thread], 1));
  }));
}

// Gaps about as long as a thread spins before it sleeps: it falls asleep while it is called.
TEST(ThreadTeam, WakesAThreadThatIsFallingAsleep) {
  const FloatModeScope mode;
  const auto team = make_team(2);
  for (int job = 0; job < 10000 && !HasFailure(); ++job) {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::nanoseconds(job * 7919 % 80000);
    while (std::chrono::steady_clock::now() < end) {
    }
    std::array<std::atomic<std::uint32_t>, 2> done{};
    EXPECT_TRUE(team->parallel_for(2, [&](std::uint32_t, std::uint32_t thread) {
      ++done[thread];
      EXPECT_TRUE(reaches(done[1 - thread], 1)) << "in job " << job;
    }));
  }
}

// The first thread falls asleep while the last tile, another's, ends.
TEST(ThreadTeam, WakesUpWhenTheLastTileEnds) {
  const FloatModeScope mode;
  const auto team = make_team(2);
  for (int job = 0; job < 10000; ++job) {
    std::atomic<bool> begun{false};
    EXPECT_TRUE(team->parallel_for(2, [&](std::uint32_t, std::uint32_t thread) {
      if (thread == 0) {
        while (!begun) {
        }
        return;
      }
      begun = true;
      const auto end =
          std::chrono::steady_clock::now() + std::chrono::nanoseconds(job * 7919 % 80000);
      while (std::chrono::steady_clock::now() < end) {
      }
    }));
  }
}

TEST(ThreadTeam, MakesWritesOfTheBodiesVisible) {
  const FloatModeScope mode;
  const auto team = make_team(4);
  std::vector<std::uint64_t> squares(512);
  for (std::uint64_t round = 0; round < 200; ++round) {
    ASSERT_TRUE(team->parallel_for(512, [&](std::uint32_t tile, std::uint32_t) {
      squares[tile] += round * tile;  // plain memory: a missing edge is a race
    }));
  }
  for (std::uint64_t tile = 0; tile < 512; ++tile) {
    ASSERT_EQ(squares[tile], 199 * 200 / 2 * tile);
  }
}

TEST(ThreadTeam, StopsBetweenTilesWhenTold) {
  struct Control {
    std::atomic<bool> stop{false};
    std::atomic<std::uint32_t> finished{0};
  };
  const FloatModeScope mode;
  Control control;
  const TeamHooks hooks{[](void* context) { return static_cast<Control*>(context)->stop.load(); },
                        [](void* context) { ++static_cast<Control*>(context)->finished; },
                        &control};
  for (const std::uint32_t size : {1U, 3U}) {
    control.stop = false;
    control.finished = 0;
    const auto team = make_team(size, hooks);
    std::atomic<std::uint32_t> runs{0};
    std::uint32_t first_runs = 0;
    EXPECT_FALSE(team->parallel_for(1000, [&](std::uint32_t, std::uint32_t thread) {
      if (thread == 0) {
        ++first_runs;
      }
      if (runs.fetch_add(1) == 4) {
        control.stop = true;
      }
    }));
    EXPECT_LT(runs.load(), 1000U);
    EXPECT_EQ(control.finished.load(), first_runs);
    // The next job runs as if nothing had happened.
    control.stop = false;
    EXPECT_TRUE(team->parallel_for(50, [](std::uint32_t, std::uint32_t) {}));
  }
}

TEST(ThreadTeam, SetsTheFloatModeOfEveryThread) {
  const FloatModeScope restore;
  const auto team = make_team(3);
  std::array<std::atomic<bool>, 3> flushed{};
  std::atomic<std::uint32_t> begun{0};
  ASSERT_TRUE(team->parallel_for(3, [&](std::uint32_t, std::uint32_t thread) {
    flushed[thread] = float_mode_is_set();
    ++begun;
    EXPECT_TRUE(reaches(begun, 3));  // so nobody has two
  }));
  for (const std::atomic<bool>& of_thread : flushed) {
    EXPECT_TRUE(of_thread.load());
  }
}

// The first `count` that this thread may run on, or as many as there are.
std::vector<int> allowed_cpus(const cpu_set_t& allowed, std::size_t count) {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE && cpus.size() < count; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) {
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

TEST(ThreadTeam, PinsItsThreads) {
  const FloatModeScope mode;
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  const std::vector<int> cpus = allowed_cpus(before, 2);
  if (cpus.size() < 2) {
    GTEST_SKIP() << "one cpu is allowed, which every thread has whether it is pinned or not";
  }
  for (const std::array<int, 2>& order :
       {std::array<int, 2>{cpus[0], cpus[1]}, std::array<int, 2>{cpus[1], cpus[0]}}) {
    auto team = ThreadTeam::create(order);
    ASSERT_TRUE(team.has_value());
    std::atomic<std::uint32_t> begun{0};
    ASSERT_TRUE((*team)->parallel_for(2, [&](std::uint32_t, std::uint32_t thread) {
      EXPECT_EQ(sched_getcpu(), order[thread]);
      ++begun;
      EXPECT_TRUE(reaches(begun, 2));  // so nobody has both
    }));
  }
  sched_setaffinity(0, sizeof(before), &before);
}

TEST(ThreadTeam, RefusesACpuThatIsNotThere) {
  const FloatModeScope mode;
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  const int there = allowed_cpus(before, 1).at(0);
  for (const std::vector<int>& cpus : {std::vector<int>{1023}, {there, 1023}, {-1}}) {
    const auto team = ThreadTeam::create(cpus);
    ASSERT_FALSE(team.has_value());
    EXPECT_EQ(team.error().code(), Code::kInvalidArgument);
    EXPECT_NE(team.error().message().find(std::to_string(cpus.back())), std::string::npos);
  }
  sched_setaffinity(0, sizeof(before), &before);
}

}  // namespace
}  // namespace phalanx::kernels
