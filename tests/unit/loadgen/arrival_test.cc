// SPDX-License-Identifier: Apache-2.0
#include "phalanx/loadgen/arrival.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

namespace phalanx::loadgen {
namespace {

struct Gaps {
  double mean;
  double variation;  // standard deviation over mean
};

Gaps gaps_of(const std::vector<Duration>& times) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < times.size(); ++i) {
    gaps.push_back(to_seconds(times[i] - times[i - 1]));
  }
  const auto count = static_cast<double>(gaps.size());
  const double mean = std::accumulate(gaps.begin(), gaps.end(), 0.0) / count;
  double squares = 0.0;
  for (const double gap : gaps) {
    squares += (gap - mean) * (gap - mean);
  }
  return {mean, std::sqrt(squares / count) / mean};
}

TEST(ArrivalTimes, ArePoissonAtBurstinessOne) {
  const auto times =
      arrival_times({.request_rate = 50, .burstiness = 1, .count = 20000, .seed = 7});
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  const Gaps gaps = gaps_of(times);
  EXPECT_NEAR(gaps.mean, 0.02, 0.0001);
  EXPECT_NEAR(gaps.variation, 1.0, 0.04) << "an exponential distribution";
  // Of an exponential distribution, 1 - 1/e lie below the mean.
  std::size_t below = 0;
  for (std::size_t i = 1; i < times.size(); ++i) {
    below += to_seconds(times[i] - times[i - 1]) < gaps.mean ? 1U : 0U;
  }
  EXPECT_NEAR(static_cast<double>(below) / 20000.0, 1 - std::exp(-1.0), 0.02);
}

TEST(ArrivalTimes, BurstinessIsTheShapeOfTheGaps) {
  for (const double burstiness : {0.25, 4.0, 100.0}) {
    const auto times =
        arrival_times({.request_rate = 50, .burstiness = burstiness, .count = 20000, .seed = 3});
    const Gaps gaps = gaps_of(times);
    EXPECT_NEAR(gaps.mean, 0.02, 0.0001) << burstiness;
    EXPECT_NEAR(gaps.variation * std::sqrt(burstiness), 1.0, 0.06) << burstiness;
  }
}

TEST(ArrivalTimes, TheLastOneIsWhereTheRateSays) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto times =
        arrival_times({.request_rate = 8, .burstiness = 0.5, .count = 40, .seed = seed});
    EXPECT_NEAR(to_seconds(times.back()), 5.0, 1e-6) << seed;
  }
}

TEST(ArrivalTimes, AreAllZeroAtInfiniteRateAndRepeatable) {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const Duration time :
       arrival_times({.request_rate = infinite, .burstiness = 1, .count = 5})) {
    EXPECT_EQ(time, Duration::zero());
  }
  const ArrivalOptions options = {.request_rate = 3, .burstiness = 1, .count = 10, .seed = 5};
  EXPECT_EQ(arrival_times(options), arrival_times(options));
}

}  // namespace
}  // namespace phalanx::loadgen
