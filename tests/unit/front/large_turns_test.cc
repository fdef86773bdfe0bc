// SPDX-License-Identifier: Apache-2.0
#include "phalanx/front/large_turns.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/base/thread_time.h"

namespace phalanx::front {
namespace {

using std::chrono::milliseconds;
using Ids = std::vector<std::uint64_t>;

constexpr bool kAwaited = true;

void work_for(Duration time) {
  const CpuTimeLimit limit(time);
  while (!limit.passed()) {
  }
}

class LargeTurnsTest : public testing::Test {
 protected:
  void add(int id, bool is_awaited) {
    LargeConnection large;
    large.connection.connection = static_cast<std::uint64_t>(id);
    turns_.add(std::move(large), is_awaited);
  }

  // Until so many have been served.
  void run(std::size_t count) {
    until_ = count;
    const auto patience = loop_.call_after(std::chrono::seconds(20), [this] { loop_.stop(); });
    loop_.run();
    ASSERT_EQ(served_.size(), count);
  }

  void serve(const LargeConnection& large) {
    served_.push_back(large.connection.connection);
    ++served_in_turn_.back();
    if (during_) {
      during_(large.connection.connection);
    }
    work_for(work_);
    if (served_.size() == until_) {
      loop_.stop();
    }
  }

  // With each turn of the loop.
  void count_turns() {
    served_in_turn_.push_back(0);
    loop_.post([this] { count_turns(); });
  }

  os::EventLoop loop_;
  Duration work_{};                            // for each …
  std::function<void(std::uint64_t)> during_;  // … with its number
  std::size_t until_ = 0;
  Ids served_;
  std::vector<int> served_in_turn_{0};
  LargeTurns turns_{loop_, [this](const LargeConnection& large) { serve(large); }};
};

TEST_F(LargeTurnsTest, WhomAClientWaitsForGoesOnFirst) {
  add(1, !kAwaited);
  add(2, !kAwaited);
  add(3, kAwaited);
  add(4, kAwaited);
  run(4);
  EXPECT_EQ(served_, (Ids{3, 4, 1, 2}));
}

TEST_F(LargeTurnsTest, TheAwaitedGoOnOneInATurnOfTheLoopAndWithoutAPause) {
  constexpr int kCount = 200;
  for (int id = 1; id <= kCount; ++id) {
    add(id, kAwaited);
  }
  count_turns();
  const Duration before = thread_cpu_time();
  const SteadyTime began = steady_clock().now();
  run(std::size_t{kCount});
  EXPECT_EQ(std::ranges::max(served_in_turn_), 1);
  EXPECT_LT(steady_clock().now() - began - (thread_cpu_time() - before),
            kCount * LargeTurns::kPause);
}

TEST_F(LargeTurnsTest, OthersGoOnTogetherAsLongAsThatTakesLittleTime) {
  constexpr int kCount = 40;
  work_ = LargeTurns::kTurnTime / 4;
  for (int id = 1; id <= kCount; ++id) {
    add(id, !kAwaited);
  }
  count_turns();
  run(std::size_t{kCount});
  EXPECT_GE(std::ranges::max(served_in_turn_), 3);
  EXPECT_LE(std::ranges::max(served_in_turn_), 4);
}

TEST_F(LargeTurnsTest, AnAwaitedOneThatComesMeanwhileIsTheNext) {
  for (int id = 1; id <= 3; ++id) {
    add(id, !kAwaited);
  }
  during_ = [this](std::uint64_t id) {
    if (id == 1) {
      add(9, kAwaited);
    }
  };
  run(4);
  EXPECT_EQ(served_, (Ids{1, 9, 2, 3}));
}

TEST_F(LargeTurnsTest, WithNobodyToMakeRoomForThereAreNoPauses) {
  constexpr int kCount = 400;
  work_ = LargeTurns::kTurnTime;  // one in a turn
  for (int id = 1; id <= kCount; ++id) {
    add(id, !kAwaited);
  }
  turns_.hurry();
  const Duration before = thread_cpu_time();
  const SteadyTime began = steady_clock().now();
  run(std::size_t{kCount});
  EXPECT_LT(steady_clock().now() - began - (thread_cpu_time() - before),
            kCount * LargeTurns::kPause);
}

}  // namespace
}  // namespace phalanx::front
