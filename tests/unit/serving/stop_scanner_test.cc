// SPDX-License-Identifier: Apache-2.0
#include "phalanx/serving/stop_scanner.h"

#include <algorithm>
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

TEST(StopScanner, TakesTheOneThatEndsFirst) {
  for (std::size_t size = 1; size < 8; ++size) {
    EXPECT_EQ(shown("aPABCz", size, {"PABC", "AB"}, false), "aP");
    EXPECT_EQ(shown("aPABCz", size, {"PABC", "AB"}, true), "aPAB");
    EXPECT_EQ(shown("aPABz", size, {"B", "PAB", "AB"}, false), "a") << "the longest of three";
  }
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
    const std::vector<std::string> stops = {"abca", "bb", "caab", "bcabc", "aa"};
    const std::string whole = shown(text, text.size(), stops, false);
    for (std::size_t size = 1; size < 8; ++size) {
      ASSERT_EQ(shown(text, size, stops, false), whole) << text << " in pieces of " << size;
    }
  }
}

// What the contract says, of the whole text each time.
struct Expected {
  std::size_t shown = 0;  // bytes of the text
  std::string match{};
};
Expected expected(const std::string& text,
                  std::size_t seen,
                  bool may_end,
                  const std::vector<std::string>& stops) {
  Expected result{text.size()};
  std::size_t first_end = text.size() + 1;
  for (const std::string& stop : stops) {
    for (std::size_t at = 0; may_end && at + stop.size() <= text.size(); ++at) {
      const std::size_t end = at + stop.size();
      const bool counts =
          end < first_end || (end == first_end && stop.size() > result.match.size());
      if (end > seen && counts && text.compare(at, stop.size(), stop) == 0) {
        first_end = end;
        result.match = stop;
      }
    }
    for (std::size_t length = 1; length < stop.size() && length <= text.size(); ++length) {
      if (text.ends_with(stop.substr(0, length))) {
        result.shown = std::min(result.shown, text.size() - length);
      }
    }
  }
  return result.match.empty() ? result : Expected{first_end - result.match.size(), result.match};
}

TEST(StopScanner, FindsAndWithholdsByDefinition) {
  std::mt19937 random(3);
  const auto word = [&](std::size_t most) {
    std::string made;
    for (std::size_t size = 1 + random() % most; made.size() < size;) {
      made += random() % 4 == 0 ? 'b' : 'a';
    }
    return made;
  };
  int matches = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops(1 + random() % 4);
    std::generate(stops.begin(), stops.end(), [&] { return word(9); });
    StopScanner scanner(stops, false);
    std::string text;
    std::string shown;
    for (int piece = 0; piece < 12; ++piece) {
      const std::size_t seen = text.size();
      const std::string more = random() % 8 == 0 ? "" : word(6);
      const bool may_end = random() % 4 == 0;
      text += more;
      const Expected expects = expected(text, seen, may_end, stops);
      const StopScanner::Output output = scanner.push(more, may_end);
      shown += output.text;
      ASSERT_EQ(shown, text.substr(0, expects.shown)) << text;
      ASSERT_EQ(output.match.value_or(""), expects.match) << text;
      if (output.match) {
        ++matches;
        break;
      }
      ASSERT_EQ(scanner.withheld_bytes(), text.size() - expects.shown);
    }
  }
  EXPECT_GT(matches, 1000);
}

// Copies go their own ways.
TEST(StopScanner, IsCopiedAsItIs) {
  StopScanner scanner({"abc"}, false);
  EXPECT_EQ(scanner.push("xab").text, "x");
  StopScanner copy = scanner;
  EXPECT_EQ(scanner.push("c").match, "abc");
  EXPECT_EQ(copy.push("d").text, "abd");
}

}  // namespace
}  // namespace phalanx::serving
