// SPDX-License-Identifier: Apache-2.0
#include "phalanx/supervise/restart_policy.h"

#include <gtest/gtest.h>

#include "support/manual_clock.h"

namespace phalanx::supervise {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

RestartPolicyOptions exact(std::uint32_t limit) {
  RestartPolicyOptions options;
  options.backoff = {milliseconds(100), seconds(10), 0.0};
  options.intensity = {limit, seconds(60)};
  options.stable_after = seconds(5);
  return options;
}

TEST(RestartPolicy, DoublesTheDelayUpToTheCap) {
  RestartPolicy policy(exact(100), 1);
  const test::ManualClock clock;
  Duration expected = milliseconds(100);
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(policy.next_delay(clock.now()), expected);
    expected = std::min<Duration>(2 * expected, seconds(10));
  }
}

TEST(RestartPolicy, ExcusesAnyNumberOfEnds) {
  RestartPolicy policy(exact(2), 1);
  const SteadyTime now{std::chrono::hours(1)};
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(policy.next_delay(now, true), milliseconds(100));
  }
  EXPECT_TRUE(policy.next_delay(now));
  EXPECT_TRUE(policy.next_delay(now));
  EXPECT_FALSE(policy.next_delay(now));
}

TEST(RestartPolicy, AShortageCountsForNothingAndIsTriedAgainEachSecond) {
  RestartPolicy policy(exact(2), 1);
  const SteadyTime now{std::chrono::hours(1)};
  for (const int expected : {100, 200, 400, 800, 1000, 1000, 1000}) {
    EXPECT_EQ(policy.delay_in_shortage(now), milliseconds(expected));
  }
  EXPECT_TRUE(policy.next_delay(now));
  EXPECT_TRUE(policy.next_delay(now));
  EXPECT_FALSE(policy.next_delay(now));
}

TEST(RestartPolicy, GivesUpPastTheIntensity) {
  RestartPolicy policy(exact(3), 1);
  test::ManualClock clock;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(policy.next_delay(clock.now()));
    clock.advance(seconds(10));
  }
  EXPECT_FALSE(policy.next_delay(clock.now()));
}

TEST(RestartPolicy, ForgetsRestartsThatLeftTheWindow) {
  RestartPolicy policy(exact(3), 1);
  test::ManualClock clock;
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(policy.next_delay(clock.now())) << i;
    clock.advance(seconds(20));
  }
}

TEST(RestartPolicy, BeginsAnewAfterAStableLife) {
  RestartPolicy policy(exact(100), 1);
  test::ManualClock clock;
  EXPECT_EQ(policy.next_delay(clock.now()), milliseconds(100));
  EXPECT_EQ(policy.next_delay(clock.now()), milliseconds(200));
  policy.on_ready(clock.now());
  clock.advance(seconds(4));
  EXPECT_EQ(policy.next_delay(clock.now()), milliseconds(400)) << "not stable yet";
  policy.on_ready(clock.now());
  clock.advance(seconds(4));
  policy.on_ready(clock.now());  // ready again after a recovery of its own
  clock.advance(seconds(2));
  EXPECT_EQ(policy.next_delay(clock.now()), milliseconds(100));
}

TEST(RestartPolicy, ForgivesAtAnOperatorsWord) {
  RestartPolicy policy(exact(1), 1);
  const test::ManualClock clock;
  EXPECT_TRUE(policy.next_delay(clock.now()));
  EXPECT_FALSE(policy.next_delay(clock.now()));
  policy.forgive();
  EXPECT_EQ(policy.next_delay(clock.now()), milliseconds(100));
}

TEST(RestartPolicy, MayForbidRestartsAltogether) {
  RestartPolicy policy(exact(0), 1);
  EXPECT_FALSE(policy.next_delay(test::ManualClock().now()));
}

TEST(ParseRestartIntensity, ReadsLimitAndWindow) {
  EXPECT_EQ(*parse_restart_intensity("5/60s"), (RestartIntensity{5, seconds(60)}));
  EXPECT_EQ(*parse_restart_intensity("0/500ms"), (RestartIntensity{0, milliseconds(500)}));
  EXPECT_EQ(*parse_restart_intensity("10/2m"), (RestartIntensity{10, std::chrono::minutes(2)}));
  EXPECT_EQ(*parse_restart_intensity("1/720h"), (RestartIntensity{1, std::chrono::hours(720)}));
}

TEST(ParseRestartIntensity, RefusesAnythingElse) {
  for (const char* text : {"",
                           "5",
                           "5/",
                           "/60s",
                           "5/60",
                           "5/0s",
                           "-1/60s",
                           "5/60d",
                           "five/60s",
                           "5/s",
                           "5/ 60s",
                           "99999999999/1s",
                           "5/721h",
                           "5/60s/1"}) {
    const auto intensity = parse_restart_intensity(text);
    ASSERT_FALSE(intensity) << text;
    EXPECT_NE(intensity.error().message().find("5/60s"), std::string::npos);
    EXPECT_EQ(intensity.error().message().find("expected"), 0U) << "who asks names the option";
  }
}

}  // namespace
}  // namespace phalanx::supervise
