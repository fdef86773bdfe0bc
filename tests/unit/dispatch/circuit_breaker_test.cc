// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/circuit_breaker.h"

#include <gtest/gtest.h>

namespace phalanx::dispatch {
namespace {

using std::chrono::seconds;

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
  breaker.on_dispatch(now);
  EXPECT_FALSE(breaker.allows(now)) << "one probe at a time";
  breaker.on_failure(now);
  EXPECT_FALSE(breaker.allows(now + seconds(4)));

  now += seconds(5);
  breaker.on_dispatch(now);
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

}  // namespace
}  // namespace phalanx::dispatch
