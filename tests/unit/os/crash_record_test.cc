// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/crash_record.h"

#include <csignal>

#include <gtest/gtest.h>

namespace phalanx::os {
namespace {

TEST(CrashRecord, KeepsTheFirstCrash) {
  CrashRecord record;
  EXPECT_FALSE(record.read());
  record.write({SIGSEGV, SEGV_MAPERR, 0, 12});
  record.write({SIGABRT, SI_TKILL, 77, 13});
  ASSERT_TRUE(record.read());
  EXPECT_EQ(record.read()->signal, SIGSEGV);
  EXPECT_EQ(record.read()->code, SEGV_MAPERR);
  EXPECT_EQ(record.read()->work, 12U);
}

TEST(CrashRecord, TellsFaultsAndOwnAbortsFromSignalsOfOthers) {
  constexpr pid_t kSelf = 100;
  EXPECT_TRUE(is_own({SIGSEGV, SEGV_MAPERR, 0}, kSelf));
  EXPECT_TRUE(is_own({SIGSEGV, SI_KERNEL, 0}, kSelf));
  EXPECT_TRUE(is_own({SIGABRT, SI_TKILL, kSelf}, kSelf));
  EXPECT_FALSE(is_own({SIGSEGV, SI_USER, 7}, kSelf));
  EXPECT_FALSE(is_own({SIGABRT, SI_TKILL, 7}, kSelf));
  EXPECT_FALSE(is_own({SIGBUS, SI_QUEUE, 7}, kSelf));
}

}  // namespace
}  // namespace phalanx::os
