// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/result.h"

#include <memory>

#include <gtest/gtest.h>

#include "phalanx/base/scope_exit.h"

namespace phalanx {
namespace {

Result<int> half(int number) {
  if (number % 2 != 0) {
    return invalid_argument(std::to_string(number) + " is odd");
  }
  return number / 2;
}

Result<int> quarter(int number) {
  PHALANX_TRY(const int once, half(number));
  PHALANX_TRY(const int twice, half(once));
  return twice;
}

Status check_even(int number) {
  PHALANX_RETURN_IF_ERROR(half(number));
  return ok();
}

TEST(Result, CarriesAValueOrAnError) {
  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_EQ(quarter(6).error().message(), "3 is odd");
  EXPECT_TRUE(check_even(2));
  EXPECT_EQ(check_even(5).error().code(), Code::kInvalidArgument);
}

TEST(Result, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> made = std::make_unique<int>(4);
  const std::unique_ptr<int> taken = *std::move(made);
  EXPECT_EQ(*taken, 4);
}

TEST(Result, FallsBack) {
  EXPECT_EQ(half(8).value_or(-1), 4);
  EXPECT_EQ(half(7).value_or(-1), -1);
}

TEST(ScopeExit, RunsOnce) {
  int runs = 0;
  {
    const ScopeExit action([&] { ++runs; });
  }
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace phalanx
