// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/heap.h"

#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace phalanx::os {
namespace {

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(GiveBackHeap, GivesBackWhatIsFreeBelowABlockInUse) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer has a heap of its own";
#endif
  constexpr std::size_t kBlockBytes = 4096;
  constexpr std::size_t kBlocks = 8192;
  std::vector<std::unique_ptr<std::byte[]>> blocks(kBlocks);
  for (auto& block : blocks) {
    block = std::make_unique<std::byte[]>(kBlockBytes);
  }
  const std::size_t in_use = resident_bytes();
  const auto last = std::move(blocks.back());
  blocks.clear();
  EXPECT_GT(resident_bytes(), in_use - kBlocks * kBlockBytes / 2) << "the last block holds them";
  give_back_heap();
  EXPECT_LT(resident_bytes(), in_use - kBlocks * kBlockBytes * 3 / 4);
}

}  // namespace
}  // namespace phalanx::os
