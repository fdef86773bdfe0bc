// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tensor/arena.h"

#include <algorithm>
#include <cstdint>

#include <gtest/gtest.h>

namespace phalanx::tensor {
namespace {

constexpr std::size_t kLarge = std::size_t{2} << 20;

TEST(ArenaPlan, PlacesPiecesInOrderAndAligned) {
  ArenaPlan plan;
  EXPECT_EQ(plan.add(10), 0U);
  EXPECT_EQ(plan.add_array<float>(33), 64U);
  EXPECT_EQ(plan.add(1, kLarge), kLarge);
  EXPECT_EQ(plan.add(7), kLarge + 64);
  EXPECT_EQ(plan.bytes(), kLarge + 71);
}

TEST(AlignedBuffer, IsAlignedAndZeroed) {
  const AlignedBuffer buffer(1000, 4096);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.bytes().data()) % 4096, 0U);
  EXPECT_TRUE(std::ranges::all_of(buffer.bytes(), [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(buffer.as<float>().size(), 250U);
}

}  // namespace
}  // namespace phalanx::tensor
