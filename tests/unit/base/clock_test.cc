// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/clock.h"

#include <gtest/gtest.h>

#include "support/manual_clock.h"

namespace phalanx {
namespace {

TEST(SecondsText, HasAsManyPlacesAsItNeeds) {
  using std::chrono::milliseconds;
  EXPECT_EQ(seconds_text(std::chrono::hours(1)), "3600 s");
  EXPECT_EQ(seconds_text(std::chrono::seconds(60)), "60 s");
  EXPECT_EQ(seconds_text(milliseconds(1500)), "1.5 s");
  EXPECT_EQ(seconds_text(milliseconds(1)), "0.001 s");
  EXPECT_EQ(seconds_text(Duration::zero()), "0 s");
}

TEST(RunningClock, LeavesOutWhatNobodySaw) {
  test::ManualClock time;
  const RunningClock clock(time);
  const SteadyTime begin = clock.now();
  time.advance(RunningClock::kMostUnseen);
  EXPECT_EQ(clock.now() - begin, RunningClock::kMostUnseen);
  time.advance(std::chrono::hours(1));
  EXPECT_EQ(clock.now() - begin, 2 * RunningClock::kMostUnseen);
  EXPECT_EQ(clock.now() - begin, 2 * RunningClock::kMostUnseen);
  time.advance(std::chrono::milliseconds(1));
  EXPECT_EQ(clock.now() - begin, 2 * RunningClock::kMostUnseen + std::chrono::milliseconds(1));
}

}  // namespace
}  // namespace phalanx
