// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/resource.h>

#include <vector>

#include <gtest/gtest.h>

#include "phalanx/os/child_process.h"
#include "phalanx/os/unique_fd.h"

namespace phalanx::os {
namespace {

TEST(HeldProgram, IsAFileThatMayBeRun) {
  EXPECT_TRUE(HeldProgram::open("/bin/sh"));
  for (const char* const path : {"/", "/etc/passwd", "/nowhere"}) {
    const auto program = HeldProgram::open(path);
    ASSERT_FALSE(program) << path;
    EXPECT_EQ(program.error().code(), Code::kNotFound) << path;
  }
}

// What is lacking for now is not what is missing for good.
TEST(HeldProgram, IsNotMissingForWantOfDescriptors) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<UniqueFd> all;
  for (int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC); fd >= 0; fd = ::dup(fd)) {
    all.emplace_back(fd);
  }
  const auto program = HeldProgram::open("/bin/sh");
  all.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code(), Code::kResourceExhausted) << program.error().message();
}

}  // namespace
}  // namespace phalanx::os
