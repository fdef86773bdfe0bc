// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tensor/shape.h"

#include <vector>

#include <gtest/gtest.h>

namespace phalanx::tensor {
namespace {

TEST(Shape, KnowsItsExtents) {
  const Shape shape{3, 5, 7};
  EXPECT_EQ(shape.rank(), 3U);
  EXPECT_EQ(shape[1], 5U);
  EXPECT_EQ(shape.elements(), 105U);
  EXPECT_EQ(shape.to_string(), "[3, 5, 7]");
  EXPECT_EQ(Shape{}.elements(), 1U);
  EXPECT_EQ(Shape{}.to_string(), "[]");
  EXPECT_NE(shape, (Shape{3, 5}));
}

TEST(Shape, RefusesTooManyAxesAndOverflow) {
  EXPECT_FALSE(Shape::from(std::vector<std::uint64_t>(5, 1)).has_value());
  EXPECT_FALSE(Shape::from(std::vector<std::uint64_t>{1ULL << 40, 1ULL << 24}).has_value());
  EXPECT_FALSE(Shape::from(std::vector<std::uint64_t>{1ULL << 63, 3}).has_value());
  EXPECT_EQ(Shape::from(std::vector<std::uint64_t>{2, 0, 4})->elements(), 0U);
  EXPECT_EQ(*Shape::from(std::vector<std::uint64_t>{2, 3}), (Shape{2, 3}));
}

TEST(MatrixView, FollowsTheStride) {
  std::vector<int> data(4 * 6);
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<int>(i);
  }
  const MatrixView<int> whole{data.data(), 4, 5, 6};
  EXPECT_EQ(whole.row(2)[3], 15);
}

TEST(AlignedStride, FillsWholeCacheLines) {
  EXPECT_EQ(aligned_stride<float>(1), 16U);
  EXPECT_EQ(aligned_stride<float>(16), 16U);
  EXPECT_EQ(aligned_stride<std::uint16_t>(33), 64U);
}

}  // namespace
}  // namespace phalanx::tensor
