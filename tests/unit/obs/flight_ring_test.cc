// SPDX-License-Identifier: Apache-2.0
#include "phalanx/obs/flight_ring.h"

#include <array>
#include <cstring>

#include <gtest/gtest.h>

namespace phalanx::obs {
namespace {

struct alignas(8) Memory {
  std::array<std::byte, 256> bytes{};
};

using Lines = std::vector<std::string>;

TEST(FlightRing, TakesZeroedMemoryForAnEmptyRing) {
  Memory memory;
  EXPECT_EQ(FlightRing(memory.bytes).lines(10), Lines{});
}

TEST(FlightRing, GivesTheLinesBackInOrder) {
  Memory memory;
  FlightRing ring(memory.bytes);
  ring.append("first");
  ring.append("");
  ring.append("third");
  EXPECT_EQ(ring.lines(10), (Lines{"first", "", "third"}));
  EXPECT_EQ(ring.lines(2), (Lines{"", "third"}));
}

TEST(FlightRing, IsReadByAnotherViewOfTheSameMemory) {
  Memory memory;
  FlightRing writer(memory.bytes);
  writer.append("last words");
  EXPECT_EQ(FlightRing(memory.bytes).lines(1), Lines{"last words"});
}

TEST(FlightRing, KeepsTheNewestWholeLines) {
  Memory memory;
  FlightRing ring(memory.bytes);
  for (int i = 0; i < 1000; ++i) {
    ring.append("line " + std::to_string(i));
    const Lines lines = ring.lines(100);
    ASSERT_FALSE(lines.empty());
    EXPECT_EQ(lines.back(), "line " + std::to_string(i));
    for (std::size_t k = 0; k < lines.size(); ++k) {
      EXPECT_EQ(lines[k],
                "line " + std::to_string(static_cast<std::size_t>(i) + 1 - lines.size() + k));
    }
  }
}

TEST(FlightRing, CutsALongLineAndKeepsLinesSingle) {
  Memory memory;
  FlightRing ring(memory.bytes);
  ring.append("two\nlines");
  ring.append(std::string(1000, 'x'));
  const Lines lines = ring.lines(10);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], "two lines");
  EXPECT_EQ(lines[1], std::string(61, 'x'));
}

TEST(FlightRing, SurvivesDamagedMemory) {
  Memory memory;
  std::memset(memory.bytes.data(), 0xFF, memory.bytes.size());
  EXPECT_LE(FlightRing(memory.bytes).lines(10).size(), 10U);
  std::memset(memory.bytes.data(), '\n', memory.bytes.size());
  EXPECT_LE(FlightRing(memory.bytes).lines(10).size(), 10U);
}

TEST(FlightRing, KeepsNothingInTooLittleMemory) {
  FlightRing ring{std::span<std::byte>()};
  ring.append("gone");
  EXPECT_EQ(ring.lines(10), Lines{});
}

}  // namespace
}  // namespace phalanx::obs
