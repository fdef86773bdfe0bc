// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/bit_names.h"

#include <array>

#include <gtest/gtest.h>

namespace phalanx {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"red", "green", "blue"};

TEST(BitNames, AreThoseOfTheBitsThatAreSetLowestFirst) {
  EXPECT_EQ(bit_names(0b101, kNames), "red blue");
  EXPECT_EQ(bit_names(0b010, kNames), "green");
  EXPECT_EQ(bit_names(0b111, kNames), "red green blue");
}

TEST(BitNames, OfNothingAreADash) {
  EXPECT_EQ(bit_names(0, kNames), "-");
  EXPECT_EQ(bit_names(0b1000, kNames), "-") << "a bit without a name";
  EXPECT_EQ(bit_names(1, {}), "-");
}

}  // namespace
}  // namespace phalanx
