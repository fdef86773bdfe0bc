// SPDX-License-Identifier: Apache-2.0
#include "phalanx/serving/generation.h"

#include <gtest/gtest.h>

#include "byte_tokenizer.h"

namespace phalanx::serving {
namespace {

wire::TokenUpdate token_at(std::uint32_t position, TokenId token) {
  wire::TokenUpdate update;
  update.position = position;
  update.has_token = true;
  update.token = token;
  return update;
}

class ChoiceTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(tokenizer_, nullptr); }

  GenerationRequest request(std::uint32_t max_tokens) {
    GenerationRequest result;
    result.prompt_ids = {1};
    result.stop.max_tokens = max_tokens;
    result.stop.stop_token_ids = {kEosToken};
    return result;
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer_ = make_byte_tokenizer();
};

TEST_F(ChoiceTest, AcceptsATokenOnlyAtExactlyTheNextPosition) {
  Choice choice(0, request(10), *tokenizer_);
  EXPECT_EQ(choice.judge(token_at(1, 'b')), Choice::Verdict::kGap);
  ASSERT_EQ(choice.judge(token_at(0, 'a')), Choice::Verdict::kAccepted);
  EXPECT_EQ(choice.accept(token_at(0, 'a')).text, "a");
  EXPECT_EQ(choice.judge(token_at(0, 'a')), Choice::Verdict::kRepeat);
  EXPECT_EQ(choice.judge(token_at(1, 'b')), Choice::Verdict::kAccepted);
  EXPECT_EQ(choice.to_generate(), 9U);
}

TEST_F(ChoiceTest, EndsAtTheEndTokenWithoutShowingIt) {
  Choice choice(0, request(10), *tokenizer_);
  static_cast<void>(choice.accept(token_at(0, 'a')));
  const TokenEvent event = choice.accept(token_at(1, kEosToken));
  EXPECT_EQ(event.text, "");
  EXPECT_EQ(event.finish, wire::FinishReason::kStop);
  EXPECT_EQ(event.stopped_by.index(), 0U);
  EXPECT_EQ(choice.judge(token_at(2, 'x')), Choice::Verdict::kRepeat);
  EXPECT_EQ(choice.to_generate(), 0U);
}

TEST_F(ChoiceTest, EndsAtTheLengthLimitAndShowsWhatWasWithheld) {
  GenerationRequest spec = request(3);
  spec.stop_strings = {"cx"};
  Choice choice(0, spec, *tokenizer_);
  EXPECT_EQ(choice.accept(token_at(0, 'a')).text, "a");
  EXPECT_EQ(choice.accept(token_at(1, 0xE2)).text, "");  // first byte of a character of three
  const TokenEvent event = choice.accept(token_at(2, 'c'));
  EXPECT_EQ(event.text,
            "\xEF\xBF\xBD"
            "c");
  EXPECT_EQ(event.finish, wire::FinishReason::kLength);
}

TEST_F(ChoiceTest, EndsAtAStopStringAndSaysWhich) {
  GenerationRequest spec = request(10);
  spec.stop_strings = {"bc"};
  Choice choice(0, spec, *tokenizer_);
  std::string text = choice.accept(token_at(0, 'a')).text;
  text += choice.accept(token_at(1, 'b')).text;
  const TokenEvent event = choice.accept(token_at(2, 'c'));
  EXPECT_EQ(text + event.text, "a");
  EXPECT_EQ(event.finish, wire::FinishReason::kStop);
  EXPECT_EQ(std::get<std::string>(event.stopped_by), "bc");
}

TEST_F(ChoiceTest, DoesNotStopBeforeMinTokens) {
  GenerationRequest spec = request(10);
  spec.stop_strings = {"a"};
  spec.sampling.min_tokens = 3;
  Choice choice(0, spec, *tokenizer_);
  EXPECT_EQ(choice.accept(token_at(0, 'a')).finish, wire::FinishReason::kNone);
  EXPECT_EQ(choice.accept(token_at(1, 'a')).finish, wire::FinishReason::kNone);
  EXPECT_EQ(choice.accept(token_at(2, 'a')).finish, wire::FinishReason::kStop);
}

}  // namespace
}  // namespace phalanx::serving
