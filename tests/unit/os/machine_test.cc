// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/machine.h"

#include <array>
#include <set>

#include <gtest/gtest.h>

#include "phalanx/os/unique_fd.h"

namespace phalanx::os {
namespace {

TEST(AvailableMemory, IsPositive) {
  const auto available = available_memory_bytes();
  ASSERT_TRUE(available);
  EXPECT_GT(*available, std::uint64_t{1} << 20);
}

TEST(ProcessLimits, HasTheLimitOfOpenFilesAfterItWasRaised) {
  const auto raised = raise_open_file_limit();
  ASSERT_TRUE(raised);
  const auto limits = process_limits();
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->open_files, *raised);
  EXPECT_GT(limits->stack_bytes, 0U);
}

TEST(OpenDescriptors, CountsTwoForAPipe) {
  const std::size_t before = open_descriptors();
  const Pipe pipe = *make_pipe();
  EXPECT_EQ(open_descriptors(), before + 2);
}

TEST(UniqueFd, ClosesItsDescriptor) {
  const std::size_t before = open_descriptors();
  {
    Pipe pipe = *make_pipe();
    UniqueFd copy = *pipe.read.duplicate();
    UniqueFd moved = std::move(copy);
    EXPECT_FALSE(copy.valid());  // NOLINT(bugprone-use-after-move): what is tested
    pipe.write = std::move(moved);
    EXPECT_EQ(open_descriptors(), before + 2);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(RandomBytes, DiffersEachTime) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 100; ++i) {
    seen.insert(random_u64());
  }
  EXPECT_EQ(seen.size(), 100U);
}

}  // namespace
}  // namespace phalanx::os
