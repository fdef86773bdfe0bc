// SPDX-License-Identifier: Apache-2.0
#include "phalanx/supervise/death_log.h"

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

TEST(DeathLog, KeepsTheLastDeathsAndCountsAll) {
  DeathLog log(3);
  for (std::uint32_t i = 1; i <= 5; ++i) {
    Death death;
    death.incarnation = Incarnation(i);
    log.add(death);
  }
  ASSERT_EQ(log.deaths().size(), 3U);
  EXPECT_EQ(log.deaths().front().incarnation, Incarnation(3));
  EXPECT_EQ(log.deaths().back().incarnation, Incarnation(5));
  EXPECT_EQ(log.total(), 5U);
}

}  // namespace
}  // namespace phalanx::supervise
