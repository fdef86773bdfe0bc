// SPDX-License-Identifier: Apache-2.0
#include "added_tokens.h"

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/base/thread_time.h"

namespace phalanx::tokenizer {
namespace {

// Of those that begin here, each compared with the text.
const AddedToken* longest_at(const std::vector<AddedToken>& tokens,
                             std::string_view text,
                             std::size_t begin,
                             const ByteRanges& opaque) {
  const AddedToken* longest = nullptr;
  for (const AddedToken& token : tokens) {
    const std::size_t end = begin + token.content.size();
    if (text.substr(begin).starts_with(token.content) &&
        (longest == nullptr || token.content.size() > longest->content.size()) &&
        !(token.special && opaque.overlaps({begin, end}))) {
      longest = &token;
    }
  }
  return longest;
}

std::vector<std::pair<std::size_t, TokenId>> found_by_definition(
    const std::vector<AddedToken>& tokens, std::string_view text, const ByteRanges& opaque) {
  std::vector<std::pair<std::size_t, TokenId>> found;
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* const token = longest_at(tokens, text, at, opaque);
    if (token != nullptr) {
      found.emplace_back(at, token->id);
    }
    at += token == nullptr ? 1 : token->content.size();
  }
  return found;
}

TEST(AddedTokenFinder, FindsWhatItsDefinitionSays) {
  std::mt19937 random(5);
  const auto word = [&](std::size_t longest) {
    std::string text;
    for (std::size_t i = 0; i < 1 + random() % longest; ++i) {
      text += static_cast<char>('a' + random() % 2);
    }
    return text;
  };
  for (int world = 0; world < 2000; ++world) {
    std::vector<AddedToken> tokens;
    for (TokenId id = 0; id < static_cast<TokenId>(1 + random() % 8); ++id) {
      AddedToken token{.id = id, .content = word(6), .special = random() % 2 == 0};
      std::erase_if(tokens, [&](const AddedToken& t) { return t.content == token.content; });
      tokens.push_back(std::move(token));
    }
    const std::string text = word(60);
    ByteRanges opaque;
    for (std::size_t at = random() % 20; at < text.size(); at += random() % 20) {
      const std::size_t begin = at;
      at = std::min(text.size(), at + random() % 10);
      opaque.append({begin, at});
    }
    std::vector<std::pair<std::size_t, TokenId>> found;
    for (const TextPart& part : AddedTokenFinder(tokens).split(text, opaque)) {
      if (part.token.has_value()) {
        found.emplace_back(part.range.begin, *part.token);
      }
    }
    ASSERT_EQ(found, found_by_definition(tokens, text, opaque)) << text;
  }
}

// A token that nearly begins at every byte would be compared with the text at every byte.
TEST(AddedTokenFinder, TakesNoLongerWhereATokenNearlyBeginsEverywhere) {
  const AddedToken token{.id = 7, .content = std::string(4095, 'a') + "b"};
  const AddedTokenFinder finder({token});
  const std::string text = std::string(2'000'000, 'a') + "b";
  const CpuTimeLimit limit(std::chrono::seconds(5));
  const std::vector<TextPart> parts = finder.split(text, {});
  EXPECT_FALSE(limit.passed());
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[1].token, 7);
}

}  // namespace
}  // namespace phalanx::tokenizer
