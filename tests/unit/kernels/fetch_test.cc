// SPDX-License-Identifier: Apache-2.0
// What is fetched while strips are read: no result depends on it, so lanes write it down.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "lanes/fetch_body.h"

namespace phalanx::kernels {
namespace {

constexpr std::size_t kLine = 64;

// Strips of a head and codes, one behind the other, in memory that nobody looks at.
struct Panel {
  std::uintptr_t first = std::uintptr_t{1} << 30;
  std::size_t strips = 4;
  std::size_t head = 0;   // lines
  std::size_t codes = 0;  // lines of a strip that are read
  std::size_t gap = 0;    // and those behind them that are not

  [[nodiscard]] std::uintptr_t strip(std::size_t s) const {
    return first + s * (head + codes + gap) * kLine;
  }
  [[nodiscard]] FetchRun run() const {
    const auto* begin = reinterpret_cast<const std::byte*>(first);
    if (gap == 0) {
      return {begin, strips * (head + codes), 1, 0};
    }
    return {begin, codes, strips, gap * kLine};
  }
  // All lines that are read, in their order.
  [[nodiscard]] std::vector<std::uintptr_t> lines() const {
    std::vector<std::uintptr_t> all;
    for (std::size_t s = 0; s < strips; ++s) {
      for (std::size_t i = 0; i < head + codes; ++i) {
        all.push_back(strip(s) + i * kLine);
      }
    }
    return all;
  }
};

const void* at(std::uintptr_t address) {
  return reinterpret_cast<const void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// Reads a panel as products of integers do, kLines lines of codes at a time.
template <std::size_t kLines, typename Fetch>
void read(const Panel& panel, Fetch& fetch) {
  for (std::size_t s = 0; s < panel.strips; ++s) {
    fetch.begin_strip(at(panel.strip(s)), panel.head * kLine);
    for (std::size_t i = 0; i < panel.codes; i += kLines) {
      const std::uintptr_t block = panel.strip(s) + (panel.head + i) * kLine;
      const auto& lines = fetch.template begin_codes<1, kLines>(at(block));
      for (std::size_t line = 0; line < kLines; ++line) {
        lines.line(at(block + line * kLine), 0, 0);
      }
    }
  }
}

// What comes `lead` lines behind each line of a panel, and then of `later`.
std::vector<std::uintptr_t> ahead_by(std::size_t lead, const Panel& panel, const Panel& later) {
  std::vector<std::uintptr_t> all = panel.lines();
  const std::size_t count = all.size();
  const std::vector<std::uintptr_t> more = later.lines();
  all.insert(all.end(), more.begin(), more.end());
  return {all.begin() + static_cast<std::ptrdiff_t>(lead),
          all.begin() + static_cast<std::ptrdiff_t>(lead + count)};
}

class Fetching : public ::testing::Test {
 protected:
  void SetUp() override { fetched() = {}; }
};

TEST_F(Fetching, LinesComeALeadBeforeTheyAreRead) {
  const Panel panel{.head = 1, .codes = 256};
  Panel later = panel;
  later.first = panel.strip(4);
  FetchLines fetch(panel.run(), 96, later.run());
  read<8>(panel, fetch);
  EXPECT_EQ(fetched().second, ahead_by(96, panel, later));
  EXPECT_TRUE(fetched().first.empty());
}

TEST_F(Fetching, LinesOfAPartOfKGoFromStripToStripAndToTheNextPanel) {
  const Panel panel{.codes = 512, .gap = 100};
  Panel later = panel;
  later.first += std::uintptr_t{1} << 20;
  FetchLines fetch(panel.run(), 144, later.run());
  read<16>(panel, fetch);
  EXPECT_EQ(fetched().second, ahead_by(144, panel, later));
}

TEST_F(Fetching, RunsThatAreShorterThanTheLeadAreFetchedAllTheSame) {
  const Panel panel{.codes = 128, .gap = 7};
  Panel later = panel;
  later.first += std::uintptr_t{1} << 20;
  FetchLines fetch(panel.run(), 144, later.run());
  read<8>(panel, fetch);
  EXPECT_EQ(fetched().second, ahead_by(128, panel, later));
}

TEST_F(Fetching, OfPagesTheFirstEighthComes) {
  const Panel panel{.head = 16, .codes = 128};
  Panel later = panel;
  later.first += std::uintptr_t{1} << 20;
  const FetchPages fetch(panel.run(), 0, 128, later.run());
  read<8>(panel, fetch);
  std::multiset<std::uintptr_t> expected;
  for (const std::uintptr_t line : ahead_by(128, panel, later)) {
    if (line % 512 == 0) {
      expected.insert(line / 4096 * 4096 + line % 4096 / 8);
    }
  }
  EXPECT_EQ(std::multiset<std::uintptr_t>(fetched().second.begin(), fetched().second.end()),
            expected);
  EXPECT_EQ(fetched().first.size(), 4 * panel.head) << "heads, as their strips begin";
}

// How many of these lines each of `calls` calls fetches, while it reads others.
std::vector<std::size_t> fetched_by_calls(FetchLater& fetch,
                                          const std::set<std::uintptr_t>& lines,
                                          std::size_t calls) {
  const std::uintptr_t read = std::uintptr_t{1} << 20;
  std::vector<std::size_t> counts;
  for (std::size_t call = 0; call < calls; ++call) {
    fetched() = {};
    const auto beside = fetch.begin_codes<2, 8>(at(read));
    for (std::size_t line = 0; line < 8; ++line) {
      beside.line(at(read + line * kLine), 0, 0);
    }
    const auto& all = fetched().second;
    counts.push_back(static_cast<std::size_t>(
        std::ranges::count_if(all, [&](std::uintptr_t line) { return lines.contains(line); })));
  }
  return counts;
}

std::size_t sum(std::span<const std::size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

// Eight rows, and one that takes an eighth of their time.
TEST_F(Fetching, TheLastRowsFetchWhatIsLeftEvenly) {
  const Panel later{.codes = 128, .gap = 100};
  const std::vector<std::uintptr_t> all = later.lines();
  const std::set<std::uintptr_t> lines(all.begin(), all.end());
  FetchLater fetch = FetchLater::all_of(later.run(), 36, CacheLevel::kSecond);
  const std::vector<std::size_t> of_eight = fetched_by_calls(fetch, lines, 32);
  fetch.end_with(32);
  const std::vector<std::size_t> of_one = fetched_by_calls(fetch, lines, 32);
  EXPECT_EQ(sum(of_eight) + sum(of_one), lines.size());
  EXPECT_GE(sum(of_eight), lines.size() * 8 / 9);
  EXPECT_LE(sum(std::span(of_one).first(8)), sum(of_one) / 2);
}

}  // namespace
}  // namespace phalanx::kernels
