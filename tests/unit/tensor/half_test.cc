// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tensor/half.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace phalanx::tensor {
namespace {

float of_bits(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

TEST(Bf16, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(to_bf16(of_bits(0x3F808000)).bits, 0x3F80);  // a tie, down to even
  EXPECT_EQ(to_bf16(of_bits(0x3F818000)).bits, 0x3F82);  // a tie, up to even
  EXPECT_EQ(to_bf16(of_bits(0x3F808001)).bits, 0x3F81);
  EXPECT_EQ(to_bf16(of_bits(0x3F807FFF)).bits, 0x3F80);
  EXPECT_EQ(to_bf16(of_bits(0xBF818000)).bits, 0xBF82);
}

TEST(Bf16, RoundsBeyondTheLargestToInfinity) {
  EXPECT_EQ(to_bf16(of_bits(0x7F7F7FFF)).bits, 0x7F7F);
  EXPECT_EQ(to_bf16(of_bits(0x7F7F8000)).bits, 0x7F80);
  EXPECT_EQ(to_bf16(-std::numeric_limits<float>::max()).bits, 0xFF80);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::infinity()).bits, 0x7F80);
}

TEST(Bf16, FlushesDenormalsAndKeepsTheirSign) {
  EXPECT_EQ(to_bf16(of_bits(0x007FFFFF)).bits, 0x0000);
  EXPECT_EQ(to_bf16(of_bits(0x807FFFFF)).bits, 0x8000);
  EXPECT_EQ(to_bf16(of_bits(0x00800000)).bits, 0x0080);
  EXPECT_EQ(canonical(Bf16{0x0001}).bits, 0x0000);
  EXPECT_EQ(canonical(Bf16{0x8001}).bits, 0x8000);
}

TEST(Bf16, HasOneNan) {
  for (const std::uint32_t nan : {0x7F800001U, 0xFF800001U, 0x7FFFFFFFU, 0xFFC00000U}) {
    EXPECT_EQ(to_bf16(of_bits(nan)).bits, kBf16Nan);
  }
  EXPECT_EQ(canonical(Bf16{0xFFFF}).bits, kBf16Nan);
}

TEST(Bf16, RoundTripsEveryCanonicalValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Bf16 value{static_cast<std::uint16_t>(bits)};
    const Bf16 expected = canonical(value);
    EXPECT_EQ(to_bf16(to_float(expected)), expected);
    EXPECT_EQ(is_finite(value), std::isfinite(to_float(value)));
  }
}

TEST(Bf16, ConvertsRows) {
  const std::vector<float> from = {1.0F, -2.5F, 1e-40F};
  std::vector<Bf16> to(3);
  to_bf16(from.data(), to.data(), 3);
  std::vector<float> back(3);
  to_float(to.data(), back.data(), 3);
  EXPECT_EQ(back, (std::vector<float>{1.0F, -2.5F, 0.0F}));
}

TEST(F16, RoundTripsEveryValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const F16 value{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(value);
    if (std::isnan(wide)) {
      EXPECT_EQ(to_f16(wide).bits & 0x7C00, 0x7C00);
      continue;
    }
    EXPECT_EQ(to_f16(wide), value) << bits;
  }
}

TEST(F16, AgreesWithTheDefinition) {
  EXPECT_EQ(to_float(F16{0x3C00}), 1.0F);
  EXPECT_EQ(to_float(F16{0xC100}), -2.5F);
  EXPECT_EQ(to_float(F16{0x0001}), 0x1p-24F);
  EXPECT_EQ(to_float(F16{0x03FF}), 0x1.ff8p-15F);
  EXPECT_EQ(to_float(F16{0x7BFF}), 65504.0F);
  EXPECT_EQ(to_float(F16{0x7C00}), std::numeric_limits<float>::infinity());
}

TEST(F16, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(to_f16(65519.0F).bits, 0x7BFF);
  EXPECT_EQ(to_f16(65520.0F).bits, 0x7C00);
  EXPECT_EQ(to_f16(1.0F + 0x1p-11F).bits, 0x3C00);             // a tie, down to even
  EXPECT_EQ(to_f16(1.0F + 0x1p-10F + 0x1p-11F).bits, 0x3C02);  // a tie, up to even
  EXPECT_EQ(to_f16(0x1p-25F).bits, 0x0000);                    // half of the smallest: a tie
  EXPECT_EQ(to_f16(0x1.8p-25F).bits, 0x0001);
  EXPECT_EQ(to_f16(-0x1p-30F).bits, 0x8000);
}

}  // namespace
}  // namespace phalanx::tensor
