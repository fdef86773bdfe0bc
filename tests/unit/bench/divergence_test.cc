// SPDX-License-Identifier: Apache-2.0
#include "divergence.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace phalanx::bench {
namespace {

TEST(Divergence, OfEqualLogitsIsNone) {
  const std::vector<float> logits = {1.5F, -2.0F, 30.0F, 0.0F};
  Divergence divergence;
  divergence.add(logits, logits);
  EXPECT_EQ(divergence.positions(), 1U);
  EXPECT_EQ(divergence.mean_kl(), 0.0);
  EXPECT_EQ(divergence.max_kl(), 0.0);
  EXPECT_EQ(divergence.kl_error(), 0.0);
  EXPECT_EQ(divergence.top_share(), 1.0);
}

// Of 3/4 and 1/4 against 1/2 and 1/2, wherever the logits lie.
TEST(Divergence, IsThatOfTheProbabilities) {
  const std::vector<float> reference = {100.0F + std::log(3.0F), 100.0F};
  const std::vector<float> other = {-700.0F, -700.0F};
  const double kl = 0.75 * std::log(1.5) + 0.25 * std::log(0.5);
  const double back = 0.5 * std::log(2.0 / 3.0) + 0.5 * std::log(2.0);
  Divergence divergence;
  divergence.add(reference, other);
  EXPECT_NEAR(divergence.mean_kl(), kl, 1e-6);
  Divergence reverse;
  reverse.add(other, reference);
  EXPECT_NEAR(reverse.mean_kl(), back, 1e-6);
}

TEST(Divergence, CountsPositions) {
  const std::vector<float> right = {0.0F, 1.0F};
  const std::vector<float> wrong = {1.0F, 0.0F};
  Divergence divergence;
  divergence.add(right, wrong);
  const double kl = divergence.max_kl();
  for (int i = 0; i < 3; ++i) {
    divergence.add(right, right);
  }
  EXPECT_EQ(divergence.positions(), 4U);
  EXPECT_EQ(divergence.top_share(), 0.75);
  EXPECT_DOUBLE_EQ(divergence.mean_kl(), kl / 4);
  EXPECT_DOUBLE_EQ(divergence.max_kl(), kl);
  // Of one kl and three zeros: a deviation of √3/4 · kl, over 4 positions.
  EXPECT_NEAR(divergence.kl_error(), std::sqrt(3.0) / 8 * kl, 1e-12);
}

}  // namespace
}  // namespace phalanx::bench
