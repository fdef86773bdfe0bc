// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tokenizer/incremental_decoder.h"

#include <algorithm>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/base/utf8.h"

#include "test_data.h"

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

// The bytes at the end of `bytes` that may still become a character, by trying out every
// continuation: the most a decoder may withhold.
std::size_t unfinished_bytes(const std::string& bytes) {
  for (std::size_t count = std::min<std::size_t>(3, bytes.size()); count > 0; --count) {
    const std::string tail = bytes.substr(bytes.size() - count);
    for (const std::string_view more :
         {"\x80", "\xBF", "\x80\x80", "\xBF\x80", "\x80\x80\x80", "\xBF\x80\x80"}) {
      std::string character = tail;
      character.append(more);
      // One character, not several.
      if (is_valid_utf8(character) && next_utf8_unit(character).bytes == character.size()) {
        return count;
      }
    }
  }
  return 0;
}

struct World {
  const char* name;
  const Tokenizer* tokenizer;
};

class AnyTokens : public testing::TestWithParam<World> {
 protected:
  // Mostly single bytes, which break characters; also special tokens, others and ids without one.
  [[nodiscard]] std::vector<TokenId> random_ids(std::mt19937& random) const {
    const std::size_t range = GetParam().tokenizer->vocab_size() + 5;
    std::vector<TokenId> ids;
    for (std::size_t i = 0; i < 1 + random() % 40; ++i) {
      const TokenId byte = single_bytes_[random() % single_bytes_.size()];
      ids.push_back(random() % 3 == 0 ? static_cast<TokenId>(random() % range) : byte);
    }
    return ids;
  }

  void SetUp() override {
    const Tokenizer& tokenizer = *GetParam().tokenizer;
    for (std::size_t i = 0; i < tokenizer.vocab_size(); ++i) {
      if (tokenizer.token_bytes(static_cast<TokenId>(i)).size() == 1) {
        single_bytes_.push_back(static_cast<TokenId>(i));
      }
    }
    ASSERT_GE(single_bytes_.size(), 256U);
  }

 private:
  std::vector<TokenId> single_bytes_;
};

TEST_P(AnyTokens, StreamToWhatTheyDecodeToAndNothingIsHeldBackLongerThanNeeded) {
  const Tokenizer& tokenizer = *GetParam().tokenizer;
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<TokenId> ids = random_ids(random);
    const DecodeOptions options{.skip_special = random() % 2 == 0, .continues = random() % 2 == 0};
    IncrementalDecoder decoder(tokenizer, options);
    std::string streamed;
    std::string bytes;
    for (const TokenId id : ids) {
      const std::string text = decoder.push(id);
      EXPECT_TRUE(is_valid_utf8(text));
      streamed += text;
      if (!options.skip_special || !tokenizer.is_special(id)) {
        bytes += tokenizer.token_bytes(id);
      }
      EXPECT_EQ(decoder.pending_bytes(), unfinished_bytes(bytes));
    }
    EXPECT_EQ(streamed + decoder.finish(), tokenizer.decode(ids, options));
  }
}

TEST_P(AnyTokens, SkippedLeaveWhatThePushedLeave) {
  const Tokenizer& tokenizer = *GetParam().tokenizer;
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<TokenId> ids = random_ids(random);
    const DecodeOptions options{.skip_special = random() % 2 == 0, .continues = random() % 2 == 0};
    IncrementalDecoder pushed(tokenizer, options);
    IncrementalDecoder skipped(tokenizer, options);
    for (std::span<const TokenId> left = ids; !left.empty();) {
      const auto some = left.first(random() % (left.size() + 1));
      for (const TokenId id : some) {
        static_cast<void>(pushed.push(id));
      }
      skipped.skip(some);
      ASSERT_EQ(skipped.pending_bytes(), pushed.pending_bytes());
      left = left.subspan(some.size());
      if (!left.empty()) {
        ASSERT_EQ(skipped.push(left.front()), pushed.push(left.front()));
        ASSERT_EQ(skipped.earlier_characters(), pushed.earlier_characters());
        left = left.subspan(1);
      }
    }
    ASSERT_EQ(skipped.finish(), pushed.finish());
  }
}

const Tokenizer& sentencepiece() {
  static const std::unique_ptr<Tokenizer> kTokenizer = load_json(
      nlohmann::json::parse(read_text(data_folder() / "sentencepiece" / "tokenizer.json")));
  return *kTokenizer;
}

INSTANTIATE_TEST_SUITE_P(Vocabularies,
                         AnyTokens,
                         testing::Values(World{"ByteLevel", &fixture()},
                                         World{"SentencePiece", &sentencepiece()}),
                         [](const auto& world) { return std::string(world.param.name); });

TEST(IncrementalDecoder, LeavesOutOneSpaceAtTheStartOfATextOnly) {
  const auto streamed = [](std::string_view text, DecodeOptions options) {
    IncrementalDecoder decoder(sentencepiece(), options);
    std::string whole;
    const std::vector<TokenId> ids = *sentencepiece().encode(text);
    for (const TokenId id : ids) {
      whole += decoder.push(id);
    }
    return whole + decoder.finish();
  };
  EXPECT_EQ(streamed("a table", {}), "a table");
  EXPECT_EQ(streamed("  a table", {}), "  a table");
  EXPECT_EQ(streamed("a table", {.continues = true}), " a table");
}

}  // namespace
}  // namespace phalanx::tokenizer
