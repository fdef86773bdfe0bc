// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/policy.h"

#include <algorithm>
#include <array>

#include <gtest/gtest.h>

namespace phalanx::dispatch {
namespace {

std::vector<Candidate> loads(const std::vector<std::uint64_t>& pending) {
  std::vector<Candidate> result;
  for (std::uint32_t i = 0; i < pending.size(); ++i) {
    result.push_back({ReplicaId(i), pending[i]});
  }
  return result;
}

TEST(LeastPendingTokens, TakesTheSmallestLoadAndRotatesTies) {
  const auto policy = make_policy("least_pending_tokens", 1);
  ASSERT_TRUE(policy);
  EXPECT_EQ((*policy)->choose(loads({5, 3, 9})), 1U);
  EXPECT_EQ((*policy)->choose(loads({5, 5, 5})), 2U);
  EXPECT_EQ((*policy)->choose(loads({5, 5, 5})), 0U);
  EXPECT_EQ((*policy)->choose(loads({5, 5, 5})), 1U);
  EXPECT_EQ((*policy)->choose(loads({0, 0, 7})), 0U);
}

TEST(LeastPendingTokens, KeepsAnyBurstBalancedToOneRequest) {
  const auto policy = make_policy("least_pending_tokens", 1);
  std::vector<std::uint64_t> pending(4, 0);
  for (int i = 0; i < 10000; ++i) {
    pending[(*policy)->choose(loads(pending))] += 100;
    const auto [low, high] = std::minmax_element(pending.begin(), pending.end());
    ASSERT_LE(*high - *low, 100U);
  }
}

TEST(RoundRobin, VisitsEveryReplicaInTurnAlsoWhenOneIsMissing) {
  const auto policy = make_policy("round_robin", 1);
  EXPECT_EQ((*policy)->choose(loads({9, 0, 0})), 0U);
  EXPECT_EQ((*policy)->choose(loads({9, 0, 0})), 1U);
  EXPECT_EQ((*policy)->choose(loads({9, 0, 0})), 2U);
  const std::vector<Candidate> without_zero = {{ReplicaId(1), 0}, {ReplicaId(2), 0}};
  EXPECT_EQ((*policy)->choose(without_zero), 0U);
}

TEST(PowerOfTwo, NeverTakesTheLargestOfThree) {
  const auto policy = make_policy("power_of_two", 7);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_NE((*policy)->choose(loads({1, 100, 2})), 1U);
  }
  EXPECT_EQ((*policy)->choose(loads({4})), 0U);
}

TEST(RandomPolicy, ReachesEveryReplica) {
  const auto policy = make_policy("random", 7);
  std::array<int, 3> counts{};
  for (int i = 0; i < 3000; ++i) {
    ++counts[(*policy)->choose(loads({1, 100, 2}))];
  }
  for (const int count : counts) {
    EXPECT_GT(count, 800);
  }
}

TEST(MakePolicy, ListsTheKnownNames) {
  const auto policy = make_policy("fastest", 1);
  ASSERT_FALSE(policy);
  EXPECT_EQ(policy.error().message(),
            "unknown routing policy \"fastest\"; expected one of least_pending_tokens, "
            "round_robin, power_of_two, random");
}

}  // namespace
}  // namespace phalanx::dispatch
