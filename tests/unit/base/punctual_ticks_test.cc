// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/punctual_ticks.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

using std::chrono::milliseconds;

class PunctualTicksTest : public testing::Test {
 protected:
  // How many of `ticks` count that come `apart` from each other.
  std::uint32_t counted(std::uint32_t ticks, Duration apart) {
    std::uint32_t result = 0;
    for (std::uint32_t i = 0; i < ticks; ++i) {
      now_ += apart;
      result += ticks_.counts(now_) ? 1U : 0U;
    }
    return result;
  }

  PunctualTicks ticks_{milliseconds(100)};
  SteadyTime now_{std::chrono::hours(1)};
};

TEST_F(PunctualTicksTest, CountsThoseThatComeOnTime) {
  EXPECT_EQ(counted(1, milliseconds(100)), 0U) << "nothing is known before the first one";
  EXPECT_EQ(counted(10, milliseconds(100)), 10U);
  EXPECT_EQ(counted(10, milliseconds(199)), 10U);
}

TEST_F(PunctualTicksTest, APauseIsNoTime) {
  (void)counted(1, milliseconds(100));
  EXPECT_EQ(counted(1, std::chrono::hours(5)), 0U);
  EXPECT_EQ(counted(1, milliseconds(100)), 1U);
}

TEST_F(PunctualTicksTest, OneThatIsAlwaysLateCountsMoreSlowly) {
  EXPECT_EQ(counted(80, milliseconds(200)), 10U);
}

}  // namespace
}  // namespace phalanx
