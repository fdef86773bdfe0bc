// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/machine.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <optional>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "phalanx/os/unique_fd.h"

namespace phalanx::os {
namespace {

TEST(AvailableMemory, IsPositive) {
  const auto available = available_memory_bytes();
  ASSERT_TRUE(available);
  EXPECT_GT(*available, std::uint64_t{1} << 20);
}

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;

// What a process finds available, in MiB, whose memory cgroup says `stat` of 60 MiB in use out of
// 64; nothing where it may not have mounts of its own. They end with the child that makes them.
std::optional<int> available_beside(const std::string& stat, const std::string& high = "max") {
  constexpr int kNotAllowed = 255;
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string root = "/sys/fs/cgroup";
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", root.c_str(), "tmpfs", 0, nullptr) != 0) {
      ::_exit(kNotAllowed);
    }
    std::ofstream(root + "/memory.max") << 64 * kMebibyte;
    std::ofstream(root + "/memory.high") << high;
    std::ofstream(root + "/memory.current") << 60 * kMebibyte;
    std::ofstream(root + "/memory.stat") << stat;
    ::_exit(static_cast<int>(available_memory_bytes().value_or(0) / kMebibyte));
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status) == kNotAllowed ? std::nullopt : std::optional(WEXITSTATUS(status));
}

std::string cache_of(std::uint64_t inactive, std::uint64_t active) {
  return "anon 1\ninactive_file " + std::to_string(inactive * kMebibyte) + "\nactive_file " +
         std::to_string(active * kMebibyte) + "\n";
}

// The kernel drops a page that was read twice as well as one that was read once.
TEST(AvailableMemory, CountsThePageCacheOfACgroupAsRoom) {
  const auto without = available_beside("anon 1\n");
  if (!without) {
    GTEST_SKIP() << "no mounts of one's own are allowed here";
  }
  EXPECT_EQ(without, 4);
  EXPECT_EQ(available_beside(cache_of(10, 0)), 14);
  EXPECT_EQ(available_beside(cache_of(0, 10)), 14);
  EXPECT_EQ(available_beside(cache_of(10, 20)), 34);
  EXPECT_EQ(available_beside(cache_of(50, 50)), 64) << "no more than the limit";
}

// Whoever is above it is held up by the kernel, and nothing tells why.
TEST(AvailableMemory, StaysBelowWhatACgroupIsThrottledAt) {
  const auto room = available_beside("anon 1\n", std::to_string(62 * kMebibyte));
  if (!room) {
    GTEST_SKIP() << "no mounts of one's own are allowed here";
  }
  EXPECT_EQ(room, 2);
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
