// SPDX-License-Identifier: Apache-2.0
#include "phalanx/front/work_watch.h"

#include <chrono>

#include <gtest/gtest.h>

namespace phalanx::front {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kThread = 1;
constexpr std::size_t kOther = 2;

class WorkWatchTest : public testing::Test {
 protected:
  std::optional<std::uint64_t> tick(Duration after = seconds(1)) {
    now_ += after;
    return watch_.tick(now_);
  }

  WorkWatch watch_{seconds(1), 3};
  SteadyTime now_ = SteadyTime(seconds(100));
};

TEST_F(WorkWatchTest, FindsWorkThatDoesNotEnd) {
  EXPECT_FALSE(tick());
  watch_.begin(kThread, 7);
  EXPECT_FALSE(tick());  // begun since the last one
  EXPECT_FALSE(tick());
  EXPECT_FALSE(tick());
  EXPECT_EQ(tick(), 7U);
  watch_.end(kThread);
  EXPECT_FALSE(tick());
}

TEST_F(WorkWatchTest, WorkThatFollowsOtherWorkBeginsAnew) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    watch_.begin(kThread, 7);
    EXPECT_FALSE(tick());
    EXPECT_FALSE(tick());
    EXPECT_FALSE(tick());
    watch_.end(kThread);
  }
}

TEST_F(WorkWatchTest, ThreadsAreWatchedEachByItself) {
  watch_.begin(kThread, 7);
  EXPECT_FALSE(tick());
  watch_.begin(kOther, 8);
  EXPECT_FALSE(tick());
  watch_.end(kThread);
  EXPECT_FALSE(tick());
  EXPECT_FALSE(tick());
  EXPECT_EQ(tick(), 8U);
}

TEST_F(WorkWatchTest, ALateTickAccusesNobody) {
  watch_.begin(kThread, 7);
  EXPECT_FALSE(tick());
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(tick(milliseconds(2'000)));
  }
  EXPECT_FALSE(tick());
  EXPECT_FALSE(tick(milliseconds(1'999)));
  EXPECT_EQ(tick(), 7U);
}

TEST_F(WorkWatchTest, ALoopThatIsAlwaysLateFindsItMoreSlowly) {
  watch_.begin(kThread, 7);
  EXPECT_FALSE(tick());
  int ticks = 0;
  while (!tick(milliseconds(2'000)) && ticks < 100) {
    ++ticks;
  }
  EXPECT_EQ(ticks, 22);
}

}  // namespace
}  // namespace phalanx::front
