// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/unique_fd.h"

#include <sys/resource.h>

#include <cerrno>
#include <string>

#include <gtest/gtest.h>

namespace phalanx::os {
namespace {

TEST(RequireDescriptors, FailsByTheNameOfTheLimitOfTheProcess) {
  EXPECT_TRUE(require_descriptors(8));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const Status status = require_descriptors(1000);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kResourceExhausted);
  EXPECT_NE(status.error().message().find("1000 descriptors are needed"), std::string::npos);
  EXPECT_NE(status.error().message().find("ulimit -n"), std::string::npos)
      << status.error().message();
}

// What raises one of them does nothing about the others.
TEST(RequireDescriptors, NamesNoLimitThatIsNotReached) {
  EXPECT_NE(limit_of_descriptors(ENOSPC).find("fs.epoll.max_user_watches"), std::string::npos);
  EXPECT_NE(limit_of_descriptors(EMFILE).find("ulimit -n"), std::string::npos);
  EXPECT_NE(limit_of_descriptors(ENFILE).find("fs.file-max"), std::string::npos);
  EXPECT_NE(limit_of_descriptors(ENOMEM).find("memory"), std::string::npos);
  for (const int other : {ENFILE, ENOMEM, EPERM}) {
    EXPECT_EQ(limit_of_descriptors(other).find("ulimit"), std::string::npos) << other;
  }
}

}  // namespace
}  // namespace phalanx::os
