// SPDX-License-Identifier: Apache-2.0
#include "code_grids.h"

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "source_dir.h"

namespace phalanx::gguf {
namespace {

// A line of the goldens without the name: tools/make_gguf_grids says what it means.
template <std::size_t count, std::size_t width>
std::string digest(const CodeGrid<count, width>& grid) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const auto& point : grid) {
    for (const std::int8_t coordinate : point) {
      hash = (hash ^ static_cast<std::uint8_t>(coordinate)) * 0x100000001B3ULL;
    }
  }
  std::ostringstream text;
  text << " " << count << " " << width << " " << std::hex;
  text.width(16);
  text.fill('0');
  text << hash;
  return text.str();
}

TEST(CodeGrids, AreThoseOfTheFormat) {
  const std::map<std::string, std::string> found = {
      {"IQ1_S", digest(kIq1Grid)},
      {"IQ2_XXS", digest(kIq2XxsGrid)},
      {"IQ2_XS", digest(kIq2XsGrid)},
      {"IQ2_S", digest(kIq2SGrid)},
      {"IQ3_XXS", digest(kIq3XxsGrid)},
      {"IQ3_S", digest(kIq3SGrid)},
  };
  std::ifstream file(std::string(PHALANX_SOURCE_DIR) + "/tests/unit/gguf/goldens/grids.txt");
  ASSERT_TRUE(file.is_open());
  std::map<std::string, std::string> expected;
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t end = line.find(' ');
    expected[line.substr(0, end)] = line.substr(end);
  }
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace phalanx::gguf
