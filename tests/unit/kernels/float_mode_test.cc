// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/float_mode.h"

#include <gtest/gtest.h>

namespace phalanx::kernels {
namespace {

// Keeps the compiler from computing at compile time, where there is no float mode.
float opaque(float value) {
  asm volatile("" : "+x"(value));
  return value;
}

TEST(FloatMode, FlushesDenormalsInsideTheScopeOnly) {
  EXPECT_NE(opaque(0x1p-100F) * opaque(0x1p-40F), 0.0F);
  {
    const FloatModeScope mode;
    EXPECT_TRUE(float_mode_is_set());
    EXPECT_EQ(opaque(0x1p-100F) * opaque(0x1p-40F), 0.0F);
    EXPECT_EQ(opaque(0x1p-140F) * opaque(0x1p100F), 0.0F);
  }
  EXPECT_FALSE(float_mode_is_set());
  EXPECT_NE(opaque(0x1p-140F) * opaque(0x1p100F), 0.0F);
}

// (1 + 2^-12)² = 1 + 2^-11 + 2^-24 rounds to 1 + 2^-11; a fused operation keeps the 2^-24. This is
// the defect that -ffp-contract=off prevents, in the build of the tests; the golden hash does the
// same for the library.
TEST(FloatMode, ProductsAndSumsAreNotFused) {
  const float x = opaque(1.0F + 0x1p-12F);
  const float c = opaque(-(1.0F + 0x1p-11F));
  EXPECT_EQ(x * x + c, 0.0F);
}

}  // namespace
}  // namespace phalanx::kernels
