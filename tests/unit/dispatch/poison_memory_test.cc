// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/poison_memory.h"

#include <gtest/gtest.h>

namespace phalanx::dispatch {
namespace {

constexpr SteadyTime kNow{std::chrono::hours(1)};

Generation generation(std::vector<TokenId> prompt, std::uint64_t seed = 1) {
  Generation result;
  result.prompt_ids = std::move(prompt);
  result.sampling.seed = seed;
  return result;
}

TEST(PoisonMemory, KnowsTheSameTokensAndParameters) {
  PoisonMemory memory;
  EXPECT_FALSE(memory.knows(generation({1, 2}), kNow));
  memory.add(generation({1, 2}), 0, 0, kNow);
  EXPECT_TRUE(memory.knows(generation({1, 2}), kNow));
  EXPECT_FALSE(memory.knows(generation({1, 3}), kNow));
  EXPECT_FALSE(memory.knows(generation({1, 2, 2}), kNow));
  Generation other = generation({1, 2});
  other.sampling.temperature = 0.5F;
  EXPECT_FALSE(memory.knows(other, kNow));
  other = generation({1, 2});
  other.stop.stop_token_ids = {7};
  EXPECT_FALSE(memory.knows(other, kNow));
  other = generation({1, 2});
  other.label = "another";
  EXPECT_TRUE(memory.knows(other, kNow));
}

TEST(PoisonMemory, ASeedCountsOnceItWasDrawnFrom) {
  PoisonMemory memory;
  memory.add(generation({1}, 5), 0, 0, kNow);
  EXPECT_TRUE(memory.knows(generation({1}, 6), kNow)) << "it died before its first token";
  memory.add(generation({2}, 5), 0, 3, kNow);
  EXPECT_TRUE(memory.knows(generation({2}, 5), kNow));
  EXPECT_FALSE(memory.knows(generation({2}, 6), kNow));
  for (const float temperature : {0.0F, 1e-6F}) {
    Generation greedy = generation({3}, 5);
    greedy.sampling.temperature = temperature;
    memory.add(greedy, 0, 3, kNow);
    greedy.sampling.seed = 6;
    EXPECT_TRUE(memory.knows(greedy, kNow));
  }
}

TEST(PoisonMemory, ALaterChoiceIsOnlyInRequestsThatHaveIt) {
  PoisonMemory memory;
  Generation many = generation({1});
  many.choices = 4;
  memory.add(many, 2, 3, kNow);
  EXPECT_TRUE(memory.knows(many, kNow));
  many.choices = 2;
  EXPECT_FALSE(memory.knows(many, kNow));
  many.choices = 4;
  memory.add(many, 2, 0, kNow);
  many.choices = 1;
  EXPECT_TRUE(memory.knows(many, kNow)) << "the prompt did it";
}

TEST(PoisonMemory, ForgetsAfterMinutesAndBeyondItsBound) {
  PoisonMemory memory;
  memory.add(generation({1}), 0, 0, kNow);
  const SteadyTime later = kNow + PoisonMemory::kRemembered;
  EXPECT_TRUE(memory.knows(generation({1}), later - std::chrono::milliseconds(1)));
  EXPECT_FALSE(memory.knows(generation({1}), later));
  EXPECT_EQ(memory.size(), 0U);
  const auto count = static_cast<TokenId>(PoisonMemory::kMaxRequests);
  for (TokenId id = 0; id <= count; ++id) {
    memory.add(generation({id}), 0, 0, kNow);
  }
  EXPECT_EQ(memory.size(), PoisonMemory::kMaxRequests);
  EXPECT_FALSE(memory.knows(generation({0}), kNow));
  EXPECT_TRUE(memory.knows(generation({1}), kNow));
  EXPECT_TRUE(memory.knows(generation({count}), kNow));
}

}  // namespace
}  // namespace phalanx::dispatch
