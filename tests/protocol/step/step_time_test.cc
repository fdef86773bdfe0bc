// SPDX-License-Identifier: Apache-2.0
// How long a replica lets prompts hold up answers that are under way.
#include <algorithm>
#include <csignal>
#include <utility>

#include <gtest/gtest.h>

#include "support/replica_world.h"

namespace phalanx::testing {
namespace {

WorldOptions slow_rows(Millis max_step) {
  WorldOptions options;
  options.cluster.max_num_batched_tokens = 512;
  options.cluster.max_model_len = 1024;
  options.cluster.rows_per_milli = 4;
  options.max_step = max_step;
  return options;
}

// The longest wait for a token of an answer while a prompt of 800 tokens is computed.
Millis longest_pause(Millis max_step) {
  ReplicaWorld world(slow_rows(max_step));
  EXPECT_TRUE(world.start());
  world.submit(world.request(1, 20, 200));
  EXPECT_TRUE(world.run_until([&] { return entry(world, 1).tokens.size() == 10; }));
  world.submit(world.request(2, 800, 5));
  Millis longest = 0;
  Millis last = world.time.millis();
  std::size_t tokens = entry(world, 1).tokens.size();
  EXPECT_TRUE(world.run_until([&] {
    if (entry(world, 1).tokens.size() > tokens) {
      tokens = entry(world, 1).tokens.size();
      longest = std::max(longest, world.time.millis() - std::exchange(last, world.time.millis()));
    }
    return entry(world, 2).end.has_value();
  }));
  return longest;
}

TEST(StepTime, PromptsHoldDecodesNoLongerThanTheLimit) {
  EXPECT_GT(longest_pause(0), 120) << "the prompt costs nothing here";
  EXPECT_LE(longest_pause(50), 50);
  EXPECT_GT(longest_pause(50), 30) << "the time is not used";
}

TEST(StepTime, ARecoveryTeachesNothing) {
  ReplicaWorld world(slow_rows(50));
  ASSERT_TRUE(world.start());
  world.submit(world.request(1, 600, 5));
  world.pass(50);
  world.cluster.crash(RankId(1), SIGKILL);
  ASSERT_TRUE(world.run_until([&] { return entry(world, 1).to_compute == 88; }));
  EXPECT_EQ(world.engine.status().step_budget_rows, 32U)
      << "the step that was run again took a recovery as well";
  ASSERT_TRUE(world.run_to_ends());
  EXPECT_GT(world.engine.status().step_budget_rows, 64U) << "the next one has taught it";
}

}  // namespace
}  // namespace phalanx::testing
