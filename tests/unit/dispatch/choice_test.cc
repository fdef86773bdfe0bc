// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/choice.h"

#include <gtest/gtest.h>

#include "phalanx/step/sampling.h"

namespace phalanx::dispatch {
namespace {

constexpr TokenId kEnd = 256;

wire::TokenUpdate token_at(std::uint32_t position, TokenId token) {
  wire::TokenUpdate update;
  update.position = position;
  update.has_token = true;
  update.token = token;
  return update;
}

Generation generation(std::uint32_t max_tokens) {
  Generation result;
  result.prompt_ids = {1};
  result.stop.max_tokens = max_tokens;
  result.stop.stop_token_ids = {kEnd};
  return result;
}

TEST(Choice, AcceptsATokenOnlyAtExactlyTheNextPosition) {
  Choice choice(0, generation(10));
  EXPECT_EQ(choice.judge(token_at(1, 'b')), Choice::Verdict::kGap);
  ASSERT_EQ(choice.judge(token_at(0, 'a')), Choice::Verdict::kAccepted);
  EXPECT_EQ(choice.accept(token_at(0, 'a')).position, 0U);
  EXPECT_EQ(choice.judge(token_at(0, 'a')), Choice::Verdict::kRepeat);
  EXPECT_EQ(choice.judge(token_at(1, 'b')), Choice::Verdict::kAccepted);
  EXPECT_EQ(choice.to_generate(), 9U);
}

TEST(Choice, EndsAtAStopToken) {
  Choice choice(0, generation(10));
  EXPECT_EQ(choice.accept(token_at(0, 'a')).finish, step::FinishReason::kNone);
  EXPECT_EQ(choice.accept(token_at(1, kEnd)).finish, step::FinishReason::kStop);
  EXPECT_EQ(choice.judge(token_at(2, 'x')), Choice::Verdict::kRepeat);
  EXPECT_EQ(choice.to_generate(), 0U);
}

TEST(Choice, EndsAtTheLengthLimit) {
  Choice choice(0, generation(2));
  EXPECT_EQ(choice.accept(token_at(0, 'a')).finish, step::FinishReason::kNone);
  EXPECT_EQ(choice.accept(token_at(1, 'b')).finish, step::FinishReason::kLength);
}

TEST(Choice, NoStopTokenEndsItBeforeMinTokens) {
  Generation spec = generation(10);
  spec.sampling.min_tokens = 2;
  Choice choice(0, spec);
  EXPECT_EQ(choice.accept(token_at(0, kEnd)).finish, step::FinishReason::kNone);
  EXPECT_EQ(choice.accept(token_at(1, kEnd)).finish, step::FinishReason::kStop);
}

TEST(Choice, AStopForgetsWhatCameBeyondIt) {
  Choice choice(0, generation(10));
  for (std::uint32_t position = 0; position < 4; ++position) {
    static_cast<void>(choice.accept(token_at(position, 'a')));
  }
  choice.stop(1);
  EXPECT_EQ(choice.produced().size(), 2U);
  EXPECT_TRUE(choice.finished());
  EXPECT_EQ(choice.judge(token_at(4, 'a')), Choice::Verdict::kRepeat);
}

}  // namespace
}  // namespace phalanx::dispatch
