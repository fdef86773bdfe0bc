// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "phalanx/step/sampling.h"

namespace phalanx::step {
namespace {

TEST(FinishName, IsTheWordOfTheApiAndNothingWhileASequenceRuns) {
  EXPECT_EQ(finish_name(FinishReason::kStop), "stop");
  EXPECT_EQ(finish_name(FinishReason::kLength), "length");
  EXPECT_EQ(finish_name(FinishReason::kCancelled), "cancelled");
  EXPECT_EQ(finish_name(FinishReason::kError), "error");
  EXPECT_EQ(finish_name(FinishReason::kNone), "");
}

}  // namespace
}  // namespace phalanx::step
