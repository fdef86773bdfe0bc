// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/circuit_breaker.h"

#include <gtest/gtest.h>

namespace phalanx::dispatch {
namespace {

using std::chrono::seconds;

constexpr wire::SequenceKey kProbe{RequestId(1), ChoiceIndex(0), Attempt(1)};
constexpr wire::SequenceKey kOther{RequestId(2), ChoiceIndex(0), Attempt(1)};

TEST(CircuitBreaker, OpensAfterFailuresInARowAndProbesOnceLater) {
  CircuitBreaker breaker({3, seconds(5)});
  SteadyTime now{};
  breaker.on_failure(now);
  breaker.on_failure(now);
  EXPECT_TRUE(breaker.allows(now));
  breaker.on_failure(now);
  EXPECT_FALSE(breaker.allows(now));
  EXPECT_FALSE(breaker.allows(now + seconds(4)));

  now += seconds(5);
  ASSERT_TRUE(breaker.allows(now));
  breaker.on_dispatch(kProbe, now);
  EXPECT_FALSE(breaker.allows(now)) << "one probe at a time";
  breaker.on_failure(now);
  EXPECT_FALSE(breaker.allows(now + seconds(4)));

  now += seconds(5);
  breaker.on_dispatch(kProbe, now);
  breaker.on_success();
  EXPECT_TRUE(breaker.allows(now));
}

TEST(CircuitBreaker, ForgetsFailuresAfterASuccess) {
  CircuitBreaker breaker({2, seconds(5)});
  for (int i = 0; i < 10; ++i) {
    breaker.on_failure(SteadyTime{});
    breaker.on_success();
  }
  EXPECT_TRUE(breaker.allows(SteadyTime{}));
}

TEST(CircuitBreaker, AProbeThatProvesNothingIsFollowedByAnother) {
  CircuitBreaker breaker({1, seconds(5)});
  SteadyTime now{};
  breaker.on_failure(now);
  now += seconds(5);
  breaker.on_dispatch(kProbe, now);
  breaker.on_ended(kOther);
  EXPECT_FALSE(breaker.allows(now)) << "that was not the probe";
  breaker.on_ended(kProbe);
  EXPECT_TRUE(breaker.allows(now));
  breaker.on_dispatch(kOther, now);
  EXPECT_FALSE(breaker.allows(now));
}

TEST(CircuitBreaker, ALongPromptOfTheProbeKeepsNobodyAway) {
  CircuitBreaker breaker({3, seconds(5)});
  SteadyTime now{};
  for (int i = 0; i < 3; ++i) {
    breaker.on_failure(now);
  }
  now += seconds(5);
  breaker.on_dispatch(kProbe, now);
  breaker.on_progress(kOther);
  EXPECT_FALSE(breaker.allows(now));
  breaker.on_progress(kProbe);
  EXPECT_TRUE(breaker.allows(now));
  breaker.on_dispatch(kOther, now);
  EXPECT_TRUE(breaker.allows(now));
  breaker.on_failure(now);
  EXPECT_FALSE(breaker.allows(now)) << "it is on trial still";
}

TEST(CircuitBreaker, ClosesWithTheFirstTokenOfTheProbe) {
  CircuitBreaker breaker({1, seconds(5)});
  SteadyTime now{};
  breaker.on_failure(now);
  now += seconds(5);
  breaker.on_dispatch(kProbe, now);
  breaker.on_token(kOther);
  EXPECT_FALSE(breaker.allows(now));
  breaker.on_token(kProbe);
  EXPECT_TRUE(breaker.allows(now));
}

}  // namespace
}  // namespace phalanx::dispatch
