// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/thread_team.h"

#include <sched.h>

#include <array>
#include <atomic>
#include <string>
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

TEST(ThreadTeam, RunsEveryTileOnce) {
  const FloatModeScope mode;
  for (const std::uint32_t size : {1U, 2U, 5U}) {
    const auto team = make_team(size);
    for (const Schedule schedule : {Schedule::kStatic, Schedule::kDynamic}) {
      for (const std::uint32_t tiles : {0U, 1U, 2U, 7U, 1000U}) {
        std::vector<std::atomic<int>> runs(tiles);
        const bool done =
            team->parallel_for(tiles, schedule, [&](std::uint32_t tile, std::uint32_t thread) {
              EXPECT_LT(thread, size);
              runs[tile].fetch_add(1, std::memory_order_relaxed);
            });
        EXPECT_TRUE(done);
        for (const std::atomic<int>& count : runs) {
          EXPECT_EQ(count.load(), 1);
        }
      }
    }
  }
}

TEST(ThreadTeam, MakesWritesOfTheBodiesVisible) {
  const FloatModeScope mode;
  const auto team = make_team(4);
  std::vector<std::uint64_t> squares(512);
  for (std::uint64_t round = 0; round < 200; ++round) {
    ASSERT_TRUE(team->parallel_for(512, Schedule::kDynamic, [&](std::uint32_t tile, std::uint32_t) {
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
    for (const Schedule schedule : {Schedule::kStatic, Schedule::kDynamic}) {
      control.stop = false;
      control.finished = 0;
      const auto team = make_team(size, hooks);
      std::atomic<std::uint32_t> runs{0};
      EXPECT_FALSE(team->parallel_for(1000, schedule, [&](std::uint32_t, std::uint32_t) {
        if (runs.fetch_add(1) == 4) {
          control.stop = true;
        }
      }));
      EXPECT_LT(runs.load(), 1000U);
      EXPECT_EQ(control.finished.load(), runs.load());
      // The next job runs as if nothing had happened.
      control.stop = false;
      EXPECT_TRUE(team->parallel_for(50, schedule, [](std::uint32_t, std::uint32_t) {}));
    }
  }
}

TEST(ThreadTeam, SetsTheFloatModeOfEveryThread) {
  const FloatModeScope restore;
  const auto team = make_team(3);
  std::array<std::atomic<bool>, 3> flushed{};
  ASSERT_TRUE(team->parallel_for(3, Schedule::kStatic, [&](std::uint32_t, std::uint32_t thread) {
    flushed[thread] = float_mode_is_set();
  }));
  for (const std::atomic<bool>& of_thread : flushed) {
    EXPECT_TRUE(of_thread.load());
  }
}

TEST(ThreadTeam, PinsItsThreads) {
  const FloatModeScope mode;
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int cpu = 0;
  while (!CPU_ISSET(static_cast<std::size_t>(cpu), &before)) {
    ++cpu;
  }
  {
    const std::array<int, 2> cpus = {cpu, cpu};
    auto team = ThreadTeam::create(cpus);
    ASSERT_TRUE(team.has_value());
    ASSERT_TRUE((*team)->parallel_for(2, Schedule::kStatic, [&](std::uint32_t, std::uint32_t) {
      EXPECT_EQ(sched_getcpu(), cpu);
    }));
  }
  sched_setaffinity(0, sizeof(before), &before);
}

TEST(ThreadTeam, RefusesACpuThatIsNotThere) {
  const FloatModeScope mode;
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  for (const std::vector<int>& cpus : {std::vector<int>{1023}, {0, 1023}, {-1}}) {
    const auto team = ThreadTeam::create(cpus);
    ASSERT_FALSE(team.has_value());
    EXPECT_EQ(team.error().code(), Code::kInvalidArgument);
    EXPECT_NE(team.error().message().find(std::to_string(cpus.back())), std::string::npos);
  }
  sched_setaffinity(0, sizeof(before), &before);
}

}  // namespace
}  // namespace phalanx::kernels
