// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/check.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(Check, LetsATrueConditionPass) {
  PHALANX_CHECK(1 + 1 == 2, "arithmetic");
  SUCCEED();
}

TEST(CheckDeathTest, EndsTheProcessNamingTheCondition) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(PHALANX_CHECK(1 > 2, "numbers have gone wrong"),
               "check_test.cc:[0-9]+: check failed: 1 > 2: numbers have gone wrong");
}

}  // namespace
}  // namespace phalanx
