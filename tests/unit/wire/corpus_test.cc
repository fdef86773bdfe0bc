// SPDX-License-Identifier: Apache-2.0
// Replays the inputs of the fuzz target, and the golden frames, in every build.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "source_dir.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace phalanx::wire {
namespace {

std::size_t replay(const std::string& folder) {
  std::size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(PHALANX_SOURCE_DIR) + folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    SCOPED_TRACE(entry.path());
    EXPECT_EQ(
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()),
        0);
    ++count;
  }
  return count;
}

TEST(WireCorpus, HoldsEveryPropertyOfTheFuzzTarget) {
  EXPECT_GE(replay("/tests/fuzz/wire/corpus"), 10U);
  EXPECT_GE(replay("/proto/golden/v15"), 10U);
}

}  // namespace
}  // namespace phalanx::wire
