// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/crash_signals.h"

#include <csignal>

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(CrashSignals, AreThoseThatAFaultOrAnAbortRaises) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS}) {
    EXPECT_TRUE(is_crash_signal(signal)) << signal;
  }
  for (const int signal : {0, SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGSTOP, SIGQUIT}) {
    EXPECT_FALSE(is_crash_signal(signal)) << signal;
  }
}

}  // namespace
}  // namespace phalanx
