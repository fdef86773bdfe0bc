// SPDX-License-Identifier: Apache-2.0
#include "scalar_math.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace phalanx::kernels::scalar {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Adding 1.5 · 2^23 leaves the nearest integer in the low bits of the sum.
constexpr float kRoundingShift = 0x1.8p23F;
constexpr float kLog2E = 0x1.715476p+0F;
constexpr float kLn2High = 0x1.63p-1F;  // 8 bits: its product with any exponent is exact
constexpr float kLn2Low = -0x1.bd0106p-13F;

float power_of_two(std::int32_t exponent) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

constexpr double kLn2HighDouble = 0x1.62e42fefp-1;  // 33 bits
constexpr double kLn2LowDouble = 0x1.473de6af278edp-34;
constexpr double kRoundingShiftDouble = 0x1.8p52;

}  // namespace

float fused(float a, float b, float c) {
  return static_cast<float>(static_cast<double>(a) * static_cast<double>(b) +
                            static_cast<double>(c));
}

float fma(float a, float b, float c) {
  // The product has 48 bits and is exact. Where the sum is not, rounding it to odd keeps the second
  // rounding from meeting a false tie (S. Boldo and G. Melquiond, "Emulation of FMA and correctly
  // rounded sums", 2008).
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = c;
  double sum = product + addend;
  const double part = sum - product;
  const double error = (product - (sum - part)) + (addend - part);
  const auto bits = std::bit_cast<std::uint64_t>(sum);
  if (std::isfinite(sum) && error != 0.0 && (bits & 1) == 0) {
    const bool outwards = (error > 0.0) == (sum > 0.0);
    sum = std::bit_cast<double>(outwards ? bits + 1 : bits - 1);
  }
  return static_cast<float>(sum);
}

float exp(float x) {
  constexpr float kLargest = 0x1.62e42ep+6F;    // exp of the next float is beyond the range
  constexpr float kSmallest = -0x1.5d589ep+6F;  // exp of the next float down is a denormal
  if (std::isnan(x)) {
    return x;
  }
  if (x > kLargest) {
    return kInfinity;
  }
  if (x < kSmallest) {
    return 0.0F;
  }
  const float shifted = fma(x, kLog2E, kRoundingShift);
  const auto n = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) -
                                           std::bit_cast<std::uint32_t>(kRoundingShift));
  const float whole = shifted - kRoundingShift;
  const float r = fma(whole, -kLn2Low, fma(whole, -kLn2High, x));
  float p = 0x1.6a25ccp-10F;
  p = fma(p, r, 0x1.1239d4p-7F);
  p = fma(p, r, 0x1.5558eep-5F);
  p = fma(p, r, 0x1.555492p-3F);
  p = fma(p, r, 0x1.fffffcp-2F);
  p = fma(p, r * r, r);
  p = p + 1.0F;
  const std::int32_t half = n >> 1;
  return p * power_of_two(half) * power_of_two(n - half);
}

float exp2(float x) {
  constexpr float kShift = kRoundingShift + 127.0F;  // the low bits hold the exponent field
  if (std::isnan(x)) {
    return x;
  }
  if (x < -126.0F) {
    return 0.0F;
  }
  const float shifted = x + kShift;
  const float r = x - (shifted - kShift);
  float p = 0x1.3a02ccp-7F;
  p = fma(p, r, 0x1.c9fc46p-5F);
  p = fma(p, r, 0x1.ec0378p-3F);
  p = fma(p, r, 0x1.62e12cp-1F);
  p = fma(p, r, 1.0F);
  return p * std::bit_cast<float>(std::bit_cast<std::uint32_t>(shifted) << 23);
}

float log(float x) {
  constexpr std::uint32_t kSqrtHalf = 0x3F3504F3;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::int32_t exponent = static_cast<std::int32_t>(bits - kSqrtHalf) >> 23;
  const float m =
      std::bit_cast<float>(bits - (static_cast<std::uint32_t>(exponent) << 23));  // [√½, √2)
  const auto e = static_cast<float>(exponent);
  const float f = m - 1.0F;
  const float f2 = f * f;
  float q = -0x1.38bf3ep-4F;
  q = fma(q, f, 0x1.05727cp-3F);
  q = fma(q, f, -0x1.0d8de8p-3F);
  q = fma(q, f, 0x1.22d786p-3F);
  q = fma(q, f, -0x1.547134p-3F);
  q = fma(q, f, 0x1.99a01cp-3F);
  q = fma(q, f, -0x1.00022ap-2F);
  q = fma(q, f, 0x1.555554p-2F);
  float y = (q * f) * f2;
  y = fma(e, kLn2Low, y);
  y = fma(-0.5F, f2, y);
  y = f + y;
  return fma(e, kLn2High, y);
}

float silu(float x) {
  return x / (1.0F + exp(-x));
}

float gumbel(std::uint32_t word) {
  const float v = fma(static_cast<float>(word), 0x1p-32F, 0x1p-33F);
  float e = 0.0F;
  if (v < 0x1p-6F) {
    float p = fma(v, 0.25F, 0x1.555556p-2F);
    p = fma(p, v, 0.5F);
    p = fma(p, v, 1.0F);
    e = p * v;
  } else {
    const float u = 1.0F - v;
    e = 0.0F - log(u > 0x1p-24F ? u : 0x1p-24F);
  }
  return 0.0F - log(e);
}

std::int32_t mass(float logit, float maximum) {
  // lrint rounds as the float mode says: to nearest even.
  return static_cast<std::int32_t>(std::lrint(exp(logit - maximum) * 0x1p30F));
}

void add_dot_block(const Bf16* a, std::size_t k, const Bf16* block, float (&sums)[16]) {
  float even[kStripColumns] = {};
  float odd[kStripColumns] = {};
  for (std::size_t i = 0; i < kDotBlock; i += 2) {
    const float a_even = i < k ? tensor::to_float(a[i]) : 0.0F;
    const float a_odd = i + 1 < k ? tensor::to_float(a[i + 1]) : 0.0F;
    const Bf16* pair = block + i * kStripColumns;
    for (std::size_t column = 0; column < kStripColumns; ++column) {
      even[column] = fused(a_even, tensor::to_float(pair[column * 2]), even[column]);
      odd[column] = fused(a_odd, tensor::to_float(pair[column * 2 + 1]), odd[column]);
    }
  }
  for (std::size_t column = 0; column < kStripColumns; ++column) {
    sums[column] = sums[column] + (even[column] + odd[column]);
  }
}

void dot_strip(const Bf16* a, std::size_t k, const Bf16* strip, float (&sums)[16]) {
  for (float& sum : sums) {
    sum = 0.0F;
  }
  for (std::size_t first = 0; first < k; first += kDotBlock) {
    add_dot_block(a + first, k - first, strip + first * kStripColumns, sums);
  }
}

float sum_lanes(const float (&lanes)[16]) {
  std::array<float, 16> sums{};
  for (std::size_t i = 0; i < 16; ++i) {
    sums[i] = lanes[i];
  }
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) {
      sums[i] = sums[i] + sums[i + half];
    }
  }
  return sums[0];
}

double exp(double x) {
  constexpr double kLog2EDouble = 0x1.71547652b82fep+0;
  const double whole = (x * kLog2EDouble + kRoundingShiftDouble) - kRoundingShiftDouble;
  const double r = (x - whole * kLn2HighDouble) - whole * kLn2LowDouble;
  // Taylor to the 13th power by Horner: 1 + r/1 (1 + r/2 (1 + …)).
  double p = 1.0;
  for (int i = 13; i >= 1; --i) {
    p = 1.0 + p * (r / static_cast<double>(i));
  }
  return std::ldexp(p, static_cast<int>(whole));
}

double log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // [½, 1)
  if (m < 0x1.6a09e667f3bcdp-1) {
    m *= 2.0;
    --exponent;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  double p = 0.0;
  for (int i = 23; i >= 3; i -= 2) {
    p = (p + 1.0 / static_cast<double>(i)) * s2;
  }
  const auto e = static_cast<double>(exponent);
  return e * kLn2HighDouble + (2.0 * s + (2.0 * s * p + e * kLn2LowDouble));
}

void sin_cos(double x, double* sine, double* cosine) {
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  // π/2 in three parts; the first two have 27 bits, so that their products with a quotient below
  // 2^25 are exact.
  constexpr double kHalfPi1 = 0x1.921fb54p+0;
  constexpr double kHalfPi2 = 0x1.10b4610p-30;
  constexpr double kHalfPi3 = 0x1.a62633145c06ep-58;
  const double quotient = (x * kTwoOverPi + kRoundingShiftDouble) - kRoundingShiftDouble;
  const double r = ((x - quotient * kHalfPi1) - quotient * kHalfPi2) - quotient * kHalfPi3;
  const double r2 = r * r;
  double s = 1.0;
  for (int i = 16; i >= 2; i -= 2) {
    s = 1.0 - s * (r2 / static_cast<double>(i * (i + 1)));
  }
  s = s * r;
  double c = 1.0;
  for (int i = 17; i >= 1; i -= 2) {
    c = 1.0 - c * (r2 / static_cast<double>(i * (i + 1)));
  }
  const auto quadrant = static_cast<std::int64_t>(quotient) & 3;
  *sine = quadrant == 0 ? s : quadrant == 1 ? c : quadrant == 2 ? -s : -c;
  *cosine = quadrant == 0 ? c : quadrant == 1 ? -s : quadrant == 2 ? -c : s;
}

}  // namespace phalanx::kernels::scalar
