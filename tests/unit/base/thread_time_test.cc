// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/thread_time.h"

#include <thread>

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(CpuTimeLimit, WaitingCostsNothingOfIt) {
  const CpuTimeLimit limit(std::chrono::milliseconds(20));
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  EXPECT_FALSE(limit.passed());
}

TEST(CpuTimeLimit, PassesOnceTheThreadHasWorkedSoLong) {
  const CpuTimeLimit limit(std::chrono::milliseconds(5));
  const Duration begin = thread_cpu_time();
  while (!limit.passed()) {
    ASSERT_LT(thread_cpu_time() - begin, std::chrono::seconds(10));
  }
  EXPECT_GE(thread_cpu_time() - begin, std::chrono::milliseconds(4));
}

}  // namespace
}  // namespace phalanx
