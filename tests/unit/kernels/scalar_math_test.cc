// SPDX-License-Identifier: Apache-2.0
#include "scalar_math.h"

#include <cmath>

#include "kernel_inputs.h"

namespace phalanx::kernels {
namespace {

class ScalarMath : public ::testing::Test {
 private:
  FloatModeScope mode_;
};

// |actual − expected| in units of the last place of a float near `expected`.
double error_in_ulps(float actual, double expected) {
  const double ulp = std::ldexp(1.0, std::ilogb(expected) - 23);
  return std::abs(static_cast<double>(actual) - expected) / ulp;
}

TEST_F(ScalarMath, ExpIsExactAtItsFixedPoints) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(std::bit_cast<std::uint32_t>(scalar::exp(0.0F)), 0x3F800000U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(scalar::exp(-0.0F)), 0x3F800000U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(scalar::exp(-kInfinity)), 0U);
  EXPECT_EQ(scalar::exp(kInfinity), kInfinity);
  EXPECT_EQ(scalar::exp(89.0F), kInfinity);
  EXPECT_EQ(scalar::exp(-88.0F), 0.0F);
  EXPECT_TRUE(std::isnan(scalar::exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST_F(ScalarMath, ExpIsWithinTwoUlps) {
  double worst = 0.0;
  for (float x = -87.33F; x < 88.72F; x += 0.00037F) {
    worst = std::max(worst, error_in_ulps(scalar::exp(x), std::exp(double{x})));
  }
  EXPECT_LT(worst, 2.0);
}

TEST_F(ScalarMath, ExpNeverExceedsOneBelowZero) {
  // Masses are at most 2^30 because of this.
  for (float x = -0x1p-30F; x > -1.0F; x *= 1.01F) {
    ASSERT_LE(scalar::exp(x), 1.0F) << x;
  }
}

TEST_F(ScalarMath, Exp2IsExactAtIntegersAndFarBelowTheRoundingOfAWeight) {
  for (int n = 0; n >= -126; --n) {
    ASSERT_EQ(scalar::exp2(static_cast<float>(n)), std::ldexp(1.0F, n));
  }
  EXPECT_EQ(std::bit_cast<std::uint32_t>(scalar::exp2(-0.0F)), 0x3F800000U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(scalar::exp2(-126.5F)), 0U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(scalar::exp2(-std::numeric_limits<float>::infinity())),
            0U);
  EXPECT_TRUE(std::isnan(scalar::exp2(std::numeric_limits<float>::quiet_NaN())));
  double worst = 0.0;
  for (float x = -126.0F; x <= 0.0F; x += 0.00031F) {
    const double expected = std::exp2(double{x});
    worst = std::max(worst, std::abs(double{scalar::exp2(x)} - expected) / expected);
  }
  EXPECT_LT(worst, 0x1p-18);
}

TEST_F(ScalarMath, LogIsWithinTwoUlps) {
  EXPECT_EQ(scalar::log(1.0F), 0.0F);
  double worst = 0.0;
  for (float x = 0x1p-126F; x < 1e38F; x *= 1.00037F) {
    const double expected = std::log(double{x});
    if (expected != 0.0) {
      worst = std::max(worst, error_in_ulps(scalar::log(x), expected));
    }
  }
  for (float x = 0.5F; x < 2.0F; x += 0x1p-18F) {
    const double expected = std::log(double{x});
    if (expected != 0.0) {
      worst = std::max(worst, error_in_ulps(scalar::log(x), expected));
    }
  }
  EXPECT_LT(worst, 2.0);
}

TEST_F(ScalarMath, DoubleFunctionsAreWithinAFewUlps) {
  for (double x = -80.0; x < 80.0; x += 0.0137) {
    EXPECT_NEAR(scalar::exp(x) / std::exp(x), 1.0, 1e-15);
  }
  for (double x = 1e-12; x < 1e18; x *= 1.037) {
    EXPECT_NEAR(scalar::log(x), std::log(x), std::abs(std::log(x)) * 4e-16 + 1e-16);
  }
  for (double x = 0.0; x < 3e7; x = x * 1.013 + 0.01) {
    double sine = 0.0;
    double cosine = 0.0;
    scalar::sin_cos(x, &sine, &cosine);
    EXPECT_NEAR(sine, std::sin(x), 3e-16) << x;
    EXPECT_NEAR(cosine, std::cos(x), 3e-16) << x;
  }
}

TEST_F(ScalarMath, GumbelIsMinusLogOfAnExponential) {
  for (const std::uint32_t word :
       {0U, 1U, 1000U, 0x03FFFFFFU, 0x04000000U, 0x80000000U, 0xF0000000U, 0xFFFF0000U}) {
    const double v = (static_cast<double>(word) + 0.5) * 0x1p-32;
    const double expected = -std::log(-std::log1p(-v));
    EXPECT_NEAR(double{scalar::gumbel(word)}, expected, std::abs(expected) * 1e-6 + 1e-6) << word;
  }
  EXPECT_TRUE(std::isfinite(scalar::gumbel(0xFFFFFFFF)));
}

void expect_fused(float a, float b, float c, float actual) {
  const float expected = std::fma(a, b, c);
  if (std::isnan(expected)) {
    ASSERT_TRUE(std::isnan(actual));
    return;
  }
  ASSERT_EQ(std::bit_cast<std::uint32_t>(actual), std::bit_cast<std::uint32_t>(expected))
      << a << " * " << b << " + " << c;
}

TEST_F(ScalarMath, FusedEqualsTheFusedInstruction) {
  Inputs inputs(1);
  for (int i = 0; i < 300000; ++i) {
    const float a = tensor::to_float(tensor::to_bf16(inputs.extreme()));
    const float b = tensor::to_float(tensor::to_bf16(inputs.extreme()));
    // Sums that almost cancel, or lie far apart, or in the denormal range.
    const float c = inputs.below(2) == 0 ? inputs.extreme() : a * b * (1.0F + inputs.uniform());
    ASSERT_NO_FATAL_FAILURE(expect_fused(a, b, c, scalar::fused(a, b, c)));
    ASSERT_NO_FATAL_FAILURE(expect_fused(a, b, c, scalar::fma(a, b, c)));
  }
}

TEST_F(ScalarMath, FmaOfAnyNumbersEqualsTheFusedInstruction) {
  Inputs inputs(2);
  for (int i = 0; i < 300000; ++i) {
    const float a = inputs.extreme();
    const float b = inputs.extreme();
    const float c = inputs.extreme();
    ASSERT_NO_FATAL_FAILURE(expect_fused(a, b, c, scalar::fma(a, b, c)));
  }
  // Exact sums that lie next to the middle of two floats, where the second rounding would be wrong.
  for (int i = 0; i < 300000; ++i) {
    const float a = 1.0F + static_cast<float>(inputs.below(1 << 12)) * 0x1p-12F;
    const float b = 0x1p-25F * (1.0F + static_cast<float>(inputs.below(1 << 11)) * 0x1p-23F);
    const float c = 1.0F + static_cast<float>(inputs.below(1 << 23)) * 0x1p-23F;
    ASSERT_NO_FATAL_FAILURE(expect_fused(a, b, c, scalar::fma(a, b, c)));
    ASSERT_NO_FATAL_FAILURE(expect_fused(-a, b, c, scalar::fma(-a, b, c)));
  }
}

TEST_F(ScalarMath, LanesAreSummedByHalves) {
  float lanes[16] = {};
  lanes[0] = 0x1p24F;
  lanes[8] = 1.0F;  // first partner of lane 0: lost in rounding
  lanes[1] = 1.0F;
  lanes[9] = 1.0F;  // together 2, which is not lost
  EXPECT_EQ(scalar::sum_lanes(lanes), 0x1p24F + 2.0F);
}

}  // namespace
}  // namespace phalanx::kernels
