// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tensor/arena.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

namespace phalanx::tensor {
namespace {

TEST(Arena, PlacesPiecesWhereThePlanSaid) {
  AlignedBuffer buffer(3 * kHugePageBytes, kHugePageBytes);
  Arena arena(buffer.bytes());
  ArenaPlan plan;
  const auto offset_of = [&](const void* piece) {
    return static_cast<std::size_t>(static_cast<const std::byte*>(piece) - buffer.bytes().data());
  };
  EXPECT_EQ(offset_of(arena.allocate(10, "a")->data()), plan.add(10));
  EXPECT_EQ(offset_of(arena.allocate_array<float>(33, "b")->data()), plan.add_array<float>(33));
  EXPECT_EQ(offset_of(arena.allocate(1, "c", kHugePageBytes)->data()), plan.add(1, kHugePageBytes));
  EXPECT_EQ(offset_of(arena.allocate_matrix<float>(3, 5, "d")->data),
            (plan.add_matrix<float>(3, 5)));
  EXPECT_EQ(arena.used(), plan.bytes());
}

TEST(Arena, AlignsEveryRowOfAMatrix) {
  AlignedBuffer buffer(4096);
  Arena arena(buffer.bytes());
  const auto matrix = arena.allocate_matrix<float>(3, 17, "matrix");
  ASSERT_TRUE(matrix.has_value());
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(matrix->row(row)) % kRowAlignment, 0U);
  }
}

TEST(Arena, RefusesMoreThanItHasAndNamesIt) {
  AlignedBuffer buffer(128);
  Arena arena(buffer.bytes());
  ASSERT_TRUE(arena.allocate(100, "first").has_value());
  const auto second = arena.allocate(1, "second");
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code(), Code::kResourceExhausted);
  EXPECT_NE(second.error().message().find("second needs 1 bytes"), std::string::npos);
  EXPECT_FALSE(arena.allocate(~std::size_t{0}, "huge").has_value());
}

TEST(AlignedBuffer, IsAlignedAndZeroed) {
  const AlignedBuffer buffer(1000, 4096);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.bytes().data()) % 4096, 0U);
  EXPECT_TRUE(std::ranges::all_of(buffer.bytes(), [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(buffer.as<float>().size(), 250U);
}

}  // namespace
}  // namespace phalanx::tensor
