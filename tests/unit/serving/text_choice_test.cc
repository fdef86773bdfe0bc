// SPDX-License-Identifier: Apache-2.0
#include "phalanx/serving/text_choice.h"

#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/step/sampling.h"

#include "byte_tokenizer.h"

namespace phalanx::serving {
namespace {

class TextChoiceTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(tokenizer_, nullptr); }

  static TextEvent push(TextChoice& choice,
                        std::uint32_t position,
                        TokenId token,
                        step::FinishReason finish = step::FinishReason::kNone) {
    return choice.push(position, token, finish);
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer_ = make_byte_tokenizer();
  TextOptions options_;
};

TEST_F(TextChoiceTest, EndsAtTheEndTokenWithoutShowingIt) {
  TextChoice choice(options_, *tokenizer_);
  EXPECT_EQ(push(choice, 0, 'a').text, "a");
  const TextEvent event = push(choice, 1, kEosToken, step::FinishReason::kStop);
  EXPECT_EQ(event.text, "");
  EXPECT_EQ(event.finish, step::FinishReason::kStop);
  EXPECT_EQ(event.stopped_by.index(), 0U);
  EXPECT_FALSE(event.to_stop);
  EXPECT_TRUE(choice.finished());
}

TEST_F(TextChoiceTest, SkipsWhatWasShownUnlessStopStringsHaveToSeeIt) {
  TextChoice choice(options_, *tokenizer_);
  const std::vector<TokenId> tokens{'a', 0xE2, 0x82};
  EXPECT_TRUE(choice.skip(tokens));
  EXPECT_EQ(push(choice, 3, 0xAC).text, "\u20ac");
  options_.stop_strings = {"ab"};
  TextChoice looking(options_, *tokenizer_);
  EXPECT_FALSE(looking.skip(std::span(tokens).first(1)));
  EXPECT_EQ(push(looking, 0, 'a').text, "");
  EXPECT_EQ(push(looking, 1, 'b').finish, step::FinishReason::kStop);
}

TEST_F(TextChoiceTest, TellsWhereTheTextOfEachTokenBegins) {
  options_.stop_strings = {"bcx"};
  TextChoice choice(options_, *tokenizer_);
  std::vector<std::size_t> offsets;
  std::uint32_t position = 0;
  // An a with an accent in two tokens, two letters that a stop string holds back, half a character.
  for (const TokenId token : {0xC3, 0xA4, int{'b'}, int{'c'}, 0xC3, int{'d'}}) {
    offsets.push_back(push(choice, position++, token).offset);
  }
  EXPECT_EQ(offsets, (std::vector<std::size_t>{0, 0, 1, 2, 3, 4}));
  EXPECT_EQ(push(choice, position, kEosToken, step::FinishReason::kStop).offset, 5U);
}

TEST_F(TextChoiceTest, NamesAStopTokenOfTheClientAndNoneOfTheModel) {
  options_.own_stop_tokens = {'a', kEosToken};
  for (const TokenId token : {TokenId{'a'}, kEosToken}) {
    TextChoice choice(options_, *tokenizer_);
    const TextEvent event = push(choice, 0, token, step::FinishReason::kStop);
    EXPECT_EQ(std::get<TokenId>(event.stopped_by), token) << "special or not";
  }
  TextChoice choice(options_, *tokenizer_);
  EXPECT_EQ(push(choice, 0, 'b', step::FinishReason::kStop).stopped_by.index(), 0U)
      << "special or not";
}

TEST_F(TextChoiceTest, ShowsAStopTokenOnlyWhereItWouldShowAStopString) {
  options_.skip_special_tokens = false;
  options_.stop_strings = {"az"};
  for (const TokenId token : {TokenId{'z'}, kEosToken}) {
    for (const bool shown : {false, true}) {
      options_.include_stop_in_output = shown;
      TextChoice choice(options_, *tokenizer_);
      std::string text = push(choice, 0, 'a').text;
      const TextEvent event = push(choice, 1, token, step::FinishReason::kStop);
      EXPECT_EQ(text + event.text, shown ? "a" + tokenizer_->token_text(token) : "a");
      EXPECT_EQ(event.offset, 1U);
    }
  }
}

TEST_F(TextChoiceTest, WhatAStopTokenLeavesOpenIsShown) {
  TextChoice choice(options_, *tokenizer_);
  EXPECT_EQ(push(choice, 0, 0xE2).text, "");
  EXPECT_EQ(push(choice, 1, 'a', step::FinishReason::kStop).text, "\xEF\xBF\xBD");
}

TEST_F(TextChoiceTest, EndsAtTheLengthLimitAndShowsWhatWasWithheld) {
  options_.stop_strings = {"cx"};
  TextChoice choice(options_, *tokenizer_);
  EXPECT_EQ(push(choice, 0, 'a').text, "a");
  EXPECT_EQ(push(choice, 1, 0xE2).text, "");  // first byte of a character of three
  const TextEvent event = push(choice, 2, 'c', step::FinishReason::kLength);
  EXPECT_EQ(event.text,
            "\xEF\xBF\xBD"
            "c");
  EXPECT_EQ(event.finish, step::FinishReason::kLength);
}

TEST_F(TextChoiceTest, EndsAtAStopStringSaysWhichAndAsksToStop) {
  options_.stop_strings = {"bc"};
  TextChoice choice(options_, *tokenizer_);
  std::string text = push(choice, 0, 'a').text;
  text += push(choice, 1, 'b').text;
  const TextEvent event = push(choice, 2, 'c');
  EXPECT_EQ(text + event.text, "a");
  EXPECT_EQ(event.finish, step::FinishReason::kStop);
  EXPECT_EQ(std::get<std::string>(event.stopped_by), "bc");
  EXPECT_TRUE(event.to_stop);
}

TEST_F(TextChoiceTest, AStopStringInTheLastTokenNeedsNoStop) {
  options_.stop_strings = {"a"};
  TextChoice choice(options_, *tokenizer_);
  const TextEvent event = push(choice, 0, 'a', step::FinishReason::kLength);
  EXPECT_EQ(event.finish, step::FinishReason::kStop);
  EXPECT_EQ(std::get<std::string>(event.stopped_by), "a");
  EXPECT_FALSE(event.to_stop);
}

TEST_F(TextChoiceTest, NoStopStringEndsItBeforeMinTokens) {
  options_.stop_strings = {"a"};
  options_.min_tokens = 3;
  TextChoice choice(options_, *tokenizer_);
  EXPECT_EQ(push(choice, 0, 'a').finish, step::FinishReason::kNone);
  EXPECT_EQ(push(choice, 1, 'a').finish, step::FinishReason::kNone);
  EXPECT_EQ(push(choice, 2, 'a').finish, step::FinishReason::kStop);
}

TEST_F(TextChoiceTest, AStopStringMayBeginBeforeMinTokens) {
  options_.stop_strings = {"abc", "b"};
  for (const std::uint32_t min_tokens : {2U, 3U, 4U}) {
    options_.min_tokens = min_tokens;
    TextChoice choice(options_, *tokenizer_);
    std::string text = push(choice, 0, 'a').text;
    const TextEvent second = push(choice, 1, 'b');
    EXPECT_EQ(second.finish == step::FinishReason::kStop, min_tokens == 2) << "it ends in time";
    if (min_tokens == 2) {
      EXPECT_EQ(text + second.text, "a");
      continue;
    }
    text += second.text;
    const TextEvent third = push(choice, 2, 'c');
    EXPECT_EQ(third.finish == step::FinishReason::kStop, min_tokens == 3);
    EXPECT_EQ(text + third.text, min_tokens == 3 ? "" : "abc");
  }
}

// What a longer one holds back has been looked through.
TEST_F(TextChoiceTest, AStopStringThatEndedBeforeMinTokensIsNoneLater) {
  options_.stop_strings = {"bcx", "b", "cd"};
  options_.min_tokens = 3;
  TextChoice choice(options_, *tokenizer_);
  std::string text = push(choice, 0, 'a').text;
  text += push(choice, 1, 'b').text;
  const TextEvent third = push(choice, 2, 'c');
  EXPECT_EQ(third.finish, step::FinishReason::kNone);
  const TextEvent fourth = push(choice, 3, 'd');
  EXPECT_EQ(text + third.text + fourth.text, "ab");
  EXPECT_EQ(std::get<std::string>(fourth.stopped_by), "cd");
}

TEST_F(TextChoiceTest, AStopStringInWhatTheLastTokenLeavesOpenIsOne) {
  options_.stop_strings = {"\xEF\xBF\xBD"};
  TextChoice choice(options_, *tokenizer_);
  EXPECT_EQ(push(choice, 0, 'a').text, "a");
  const TextEvent event = push(choice, 1, 0xE2, step::FinishReason::kLength);
  EXPECT_EQ(event.text, "");
  EXPECT_EQ(event.finish, step::FinishReason::kStop);
  EXPECT_FALSE(event.to_stop);
}

}  // namespace
}  // namespace phalanx::serving
