// SPDX-License-Identifier: Apache-2.0
// The grids of code_grids.h from the sets of grid_sets.h: the digits of a point's number, lowest
// first, are the levels of its coordinates, and points stand in the order of their numbers. So a
// grid takes a bit for each point that could be, and its points need not be told one by one.
#include "code_grids.h"

#include "grid_sets.h"

namespace phalanx::gguf {
namespace {

template <typename Grid, std::size_t words, std::size_t levels>
constexpr Grid points_of(const std::array<std::uint64_t, words>& set,
                         const std::array<std::int8_t, levels>& level) {
  Grid grid{};
  std::size_t count = 0;
  for (std::size_t number = 0; number < 64 * words; ++number) {
    if ((set[number / 64] >> (number % 64) & 1U) == 0) {
      continue;
    }
    std::size_t digits = number;
    for (std::int8_t& coordinate : grid.at(count)) {  // at(): a point too many does not compile
      coordinate = level[digits % levels];
      digits /= levels;
    }
    ++count;
  }
  return grid;
}

constexpr std::array<std::int8_t, 3> kTernary = {-1, 0, 1};
constexpr std::array<std::int8_t, 3> kThree = {8, 25, 43};
constexpr std::array<std::int8_t, 8> kEight = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr std::array<std::int8_t, 8> kOdd = {1, 3, 5, 7, 9, 11, 13, 15};

}  // namespace

constinit const CodeGrid<2048, 8> kIq1Grid = points_of<CodeGrid<2048, 8>>(kIq1Set, kTernary);
constinit const CodeGrid<256, 8> kIq2XxsGrid = points_of<CodeGrid<256, 8>>(kIq2XxsSet, kThree);
constinit const CodeGrid<512, 8> kIq2XsGrid = points_of<CodeGrid<512, 8>>(kIq2XsSet, kThree);
constinit const CodeGrid<1024, 8> kIq2SGrid = points_of<CodeGrid<1024, 8>>(kIq2SSet, kThree);
constinit const CodeGrid<256, 4> kIq3XxsGrid = points_of<CodeGrid<256, 4>>(kIq3XxsSet, kEight);
constinit const CodeGrid<512, 4> kIq3SGrid = points_of<CodeGrid<512, 4>>(kIq3SSet, kOdd);

}  // namespace phalanx::gguf
