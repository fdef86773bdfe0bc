// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/sequence_tokens.h"

#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/engine/scheduler.h"
#include "phalanx/step/limits.h"
#include "phalanx/step/prefix_hash.h"

namespace phalanx::engine {
namespace {

std::vector<TokenId> prompt_of(std::size_t length, TokenId first = 0) {
  std::vector<TokenId> tokens(length);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Wherever the shared part ends, the whole is the same.
TEST(SequenceTokens, AreOneSequenceWhereverTheyAreCut) {
  std::vector<TokenId> expected = prompt_of(100);
  for (const std::size_t cut : {0U, 32U, 96U}) {
    auto beginning = std::make_shared<PromptBlocks>();
    beginning->tokens = prompt_of(cut);
    step::extend_prefix_hashes(7, "salt", beginning->tokens, beginning->hashes);
    SequenceTokens tokens(prompt_of(100 - cut, static_cast<TokenId>(cut)), beginning);
    for (TokenId next = 100; next < 130; ++next) {
      EXPECT_EQ(tokens.back(), next - 1);
      tokens.push_back(next);
    }
    expected = prompt_of(130);
    EXPECT_EQ(tokens.size(), 130U);
    EXPECT_EQ(tokens.all(), expected);
    tokens.hash_blocks(7, "salt");
    std::vector<std::uint64_t> hashes;
    step::extend_prefix_hashes(7, "salt", expected, hashes);
    ASSERT_EQ(tokens.hashed_blocks(), 4U);
    for (std::size_t block = 0; block < 4; ++block) {
      EXPECT_EQ(tokens.hash(block), hashes[block]);
      EXPECT_EQ(tokens.block(block)[0], static_cast<TokenId>(block * step::kBlockTokens));
      EXPECT_EQ(tokens.block(block).size(), step::kBlockTokens);
    }
  }
}

TEST(SequenceTokens, AreEqualByValue) {
  const auto beginning = [](TokenId first) {
    return std::make_shared<const PromptBlocks>(PromptBlocks{prompt_of(32, first), {}});
  };
  const SequenceTokens tokens({7}, beginning(0));
  EXPECT_EQ(tokens, SequenceTokens({7}, beginning(0)));
  EXPECT_NE(tokens, SequenceTokens({8}, beginning(0)));
  EXPECT_NE(tokens, SequenceTokens({7}, beginning(1)));
  EXPECT_NE(tokens, SequenceTokens({7}));
  EXPECT_EQ(SequenceTokens({7}), SequenceTokens({7}));
}

// ---- in a scheduler

class ChoicesTest : public ::testing::Test {
 protected:
  static SchedulerOptions options() {
    SchedulerOptions options;
    options.limits = {512, 4, 64, 32};
    options.max_waiting = 8;
    options.vocab_size = 1000;
    options.prefix_cache = true;
    return options;
  }

  static wire::Submit choice(std::uint32_t index, std::vector<TokenId> prompt) {
    wire::Submit submit;
    submit.key = {RequestId(1), ChoiceIndex(index), Attempt(1)};
    submit.prompt_ids = std::move(prompt);
    submit.stop.max_tokens = 40;
    return submit;
  }

  const SequenceTokens& submit(const wire::Submit& submit) {
    const auto id = scheduler_.submit(submit);
    EXPECT_TRUE(id) << id.error().to_string();
    return scheduler_.find(submit.key)->tokens;
  }

  void step(TokenId token) {
    const StepPlan plan = scheduler_.plan();
    scheduler_.begin(plan);
    step::SampleResult sample;
    sample.token = token;
    (void)scheduler_.confirm(plan, std::vector<step::SampleResult>(plan.rows.size(), sample));
  }

  Scheduler scheduler_{options()};
};

TEST_F(ChoicesTest, HoldTheirPromptTogether) {
  const SequenceTokens& first = submit(choice(0, prompt_of(100)));
  wire::Submit continued = choice(1, prompt_of(100));
  continued.key.attempt = Attempt(3);
  continued.produced_ids = {501, 502};
  const SequenceTokens& second = submit(continued);
  EXPECT_EQ(first.block(0).data(), second.block(0).data());
  EXPECT_EQ(first.beginning()->tokens, prompt_of(96));
  EXPECT_EQ(first.all(), prompt_of(100));
  std::vector<TokenId> history = prompt_of(100);
  history.insert(history.end(), {501, 502});
  EXPECT_EQ(second.all(), history);
  EXPECT_EQ(second.hashed_blocks(), 3U);
}

TEST_F(ChoicesTest, OutliveTheOneThatCameFirst) {
  (void)submit(choice(0, prompt_of(40)));
  const SequenceTokens& second = submit(choice(1, prompt_of(40)));
  ASSERT_TRUE(scheduler_.cancel(choice(0, {}).key));
  EXPECT_EQ(scheduler_.sweep().size(), 1U);
  EXPECT_EQ(second.all(), prompt_of(40));
  for (std::uint32_t produced = 0; produced < 40; ++produced) {
    ASSERT_EQ(second.size(), 40 + produced);
    step(9);
  }
  EXPECT_TRUE(scheduler_.empty());
}

TEST_F(ChoicesTest, ShareNothingThatDiffers) {
  const SequenceTokens& first = submit(choice(0, prompt_of(100)));
  const SequenceTokens& other = submit(choice(1, prompt_of(100, 1)));
  wire::Submit salted = choice(2, prompt_of(100));
  salted.cache_salt = "tenant";
  const SequenceTokens& tenant = submit(salted);
  const SequenceTokens& shorter = submit(choice(3, prompt_of(40)));
  EXPECT_EQ(other.all(), prompt_of(100, 1));
  EXPECT_EQ(shorter.all(), prompt_of(40));
  EXPECT_NE(tenant.hash(0), first.hash(0));
  EXPECT_EQ(shorter.hash(0), first.hash(0));
  EXPECT_EQ(shorter.hashed_blocks(), 1U);
}

}  // namespace
}  // namespace phalanx::engine
