// SPDX-License-Identifier: Apache-2.0
#include "phalanx/serving/stop_scanner.h"

#include <random>

#include <gtest/gtest.h>

namespace phalanx::serving {
namespace {

// All that a scanner shows of `text` cut into pieces of `size` bytes.
std::string shown(const std::string& text,
                  std::size_t size,
                  const std::vector<std::string>& stops,
                  bool include) {
  StopScanner scanner(stops, include);
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += size) {
    const StopScanner::Output output = scanner.push(text.substr(at, size));
    out += output.text;
    if (output.match) {
      return out;
    }
  }
  return out + scanner.finish();
}

TEST(StopScanner, CutsBeforeTheStopStringHoweverTheTextArrives) {
  for (std::size_t size = 1; size < 20; ++size) {
    EXPECT_EQ(shown("hello STOP world", size, {"STOP"}, false), "hello ");
    EXPECT_EQ(shown("hello STOP world", size, {"STOP"}, true), "hello STOP");
    EXPECT_EQ(shown("hello STO", size, {"STOP"}, false), "hello STO");
    EXPECT_EQ(shown("aab", size, {"ab"}, false), "a");
    EXPECT_EQ(shown("SSTOP", size, {"STOP"}, false), "S");
  }
}

TEST(StopScanner, TakesTheEarliestOfSeveral) {
  EXPECT_EQ(shown("one two three", 100, {"three", "two"}, false), "one ");
  EXPECT_EQ(shown("xyz", 1, {"yz", "xyz"}, false), "");
}

TEST(StopScanner, WithholdsOnlyWhatMayBecomeAStopString) {
  StopScanner scanner({"<end>"}, false);
  EXPECT_EQ(scanner.push("a <en").text, "a ");
  EXPECT_EQ(scanner.withheld_bytes(), 3U);
  EXPECT_EQ(scanner.push("t>").text, "<ent>");
  EXPECT_EQ(scanner.withheld_bytes(), 0U);
}

TEST(StopScanner, ShowsTheSameForEveryCutOfRandomText) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 30; ++i) {
      text += static_cast<char>('a' + random() % 3);
    }
    const std::vector<std::string> stops = {"abca", "bb", "caab"};
    const std::string whole = shown(text, text.size(), stops, false);
    for (std::size_t size = 1; size < 8; ++size) {
      ASSERT_EQ(shown(text, size, stops, false), whole) << text << " in pieces of " << size;
    }
  }
}

}  // namespace
}  // namespace phalanx::serving
