// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tensor/dtype.h"

#include <gtest/gtest.h>

namespace phalanx::tensor {
namespace {

TEST(Dtype, ParsesTheNamesItPrints) {
  for (const Dtype dtype : {Dtype::kBf16,
                            Dtype::kF16,
                            Dtype::kF32,
                            Dtype::kI32,
                            Dtype::kU32,
                            Dtype::kI64,
                            Dtype::kU64}) {
    EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype);
  }
  EXPECT_FALSE(parse_dtype("F8_E4M3").has_value());
  EXPECT_FALSE(parse_dtype("").has_value());
}

TEST(Dtype, KnowsItsSize) {
  EXPECT_EQ(dtype_bytes(Dtype::kBf16), 2U);
  EXPECT_EQ(dtype_bytes(Dtype::kF32), 4U);
  EXPECT_EQ(dtype_bytes(Dtype::kI64), 8U);
}

}  // namespace
}  // namespace phalanx::tensor
