// SPDX-License-Identifier: Apache-2.0
#include "phalanx/supervise/death.h"

#include <csignal>

#include <gtest/gtest.h>

namespace phalanx::supervise {
namespace {

TEST(Describe, PrefersWhatTheChildSaidItself) {
  Death death;
  death.reason = os::Exited{65};
  EXPECT_EQ(describe(death), "exited with status 65");
  death.lines = {"older", "newest"};
  EXPECT_EQ(describe(death), "exited with status 65");
  EXPECT_EQ(describe_for_log(death), "exited with status 65; last log line: newest");
  death.cause = "tensor missing";
  EXPECT_EQ(describe(death), "exited with status 65: tensor missing");
  EXPECT_EQ(describe_for_log(death), describe(death));
}

TEST(Describe, NamesTheSignal) {
  Death death;
  death.reason = os::Signaled{SIGKILL, false};
  EXPECT_EQ(describe(death), "killed by signal 9 (SIGKILL)");
  death.reason = os::Signaled{SIGSEGV, true};
  EXPECT_EQ(describe(death), "killed by signal 11 (SIGSEGV, core dumped)");
}

}  // namespace
}  // namespace phalanx::supervise
