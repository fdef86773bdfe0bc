// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "phalanx/wire/sampling.h"

namespace phalanx::wire {
namespace {

TEST(FinishName, IsTheWordOfTheApiAndNothingWhileASequenceRuns) {
  EXPECT_EQ(finish_name(FinishReason::kStop), "stop");
  EXPECT_EQ(finish_name(FinishReason::kLength), "length");
  EXPECT_EQ(finish_name(FinishReason::kCancelled), "cancelled");
  EXPECT_EQ(finish_name(FinishReason::kError), "error");
  EXPECT_EQ(finish_name(FinishReason::kNone), "");
}

}  // namespace
}  // namespace phalanx::wire
