// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tokenizer/incremental_decoder.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "test_data.h"
#include "utf8.h"

namespace phalanx::tokenizer {
namespace {

std::vector<TokenId> byte_tokens(std::string_view bytes) {
  std::vector<TokenId> ids;
  for (const char byte : bytes) {
    ids.push_back(fixture().id_of(std::string_view(&byte, 1)).value());
  }
  return ids;
}

std::vector<std::string> pushes(const std::vector<TokenId>& ids, DecodeOptions options = {}) {
  IncrementalDecoder decoder(fixture(), options);
  std::vector<std::string> texts;
  for (const TokenId id : ids) {
    texts.push_back(decoder.push(id));
  }
  texts.push_back(decoder.finish());
  return texts;
}

TEST(IncrementalDecoder, WithholdsOnlyAnUnfinishedCharacter) {
  EXPECT_EQ(pushes(byte_tokens("a\u20acb")),
            (std::vector<std::string>{"a", "", "", "\u20ac", "b", ""}));
  EXPECT_EQ(pushes(byte_tokens("\U0001F600")),
            (std::vector<std::string>{"", "", "", "\U0001F600", ""}));
}

TEST(IncrementalDecoder, ReplacesWhatCanNoLongerBecomeACharacter) {
  EXPECT_EQ(pushes(byte_tokens("\xE2\x82"
                               "a")),
            (std::vector<std::string>{"", "", "\uFFFDa", ""}));
  EXPECT_EQ(pushes(byte_tokens("\x80\xFF")), (std::vector<std::string>{"\uFFFD", "\uFFFD", ""}));
  EXPECT_EQ(pushes(byte_tokens("\xE2\xE2\x82\xAC")),
            (std::vector<std::string>{"", "\uFFFD", "", "\u20ac", ""}));
}

TEST(IncrementalDecoder, ReplacesABrokenTailAtTheEndAndStartsAnew) {
  IncrementalDecoder decoder(fixture());
  EXPECT_EQ(decoder.push(byte_tokens("\xF0").front()), "");
  EXPECT_EQ(decoder.pending_bytes(), 1U);
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
  EXPECT_EQ(decoder.push(byte_tokens("a").front()), "a");
}

TEST(IncrementalDecoder, SkipsSpecialTokensByOption) {
  const std::vector<TokenId> ids = *fixture().encode("a<|im_end|>", {.parse_special = true});
  EXPECT_EQ(pushes(ids), (std::vector<std::string>{"a", "", ""}));
  EXPECT_EQ(pushes(ids, {.skip_special = false}),
            (std::vector<std::string>{"a", "<|im_end|>", ""}));
}

TEST(IncrementalDecoder, GoesOnIndependentlyInACopy) {
  IncrementalDecoder decoder(fixture());
  static_cast<void>(decoder.push(byte_tokens("\xC3").front()));
  IncrementalDecoder copy = decoder;
  EXPECT_EQ(decoder.push(byte_tokens("\xA9").front()), "\u00e9");
  EXPECT_EQ(copy.finish(), "\uFFFD");
}

TEST(IncrementalDecoder, StreamsWhatDecodeGivesForAnyTokens) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::vector<TokenId> ids;
    for (std::size_t i = 0; i < 1 + random() % 40; ++i) {
      // Mostly single bytes, which break characters, some of them ids without a token.
      const std::size_t range = random() % 3 == 0 ? fixture().vocab_size() + 5 : 256;
      ids.push_back(static_cast<TokenId>(random() % range));
    }
    for (const bool skip : {true, false}) {
      IncrementalDecoder decoder(fixture(), {.skip_special = skip});
      std::string streamed;
      for (const TokenId id : ids) {
        const std::string text = decoder.push(id);
        EXPECT_TRUE(is_valid_utf8(text));
        EXPECT_LE(decoder.pending_bytes(), 3U);
        streamed += text;
      }
      streamed += decoder.finish();
      EXPECT_EQ(streamed, fixture().decode(ids, {.skip_special = skip}));
    }
  }
}

}  // namespace
}  // namespace phalanx::tokenizer
