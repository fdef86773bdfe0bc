// SPDX-License-Identifier: Apache-2.0
#include "regular_expression.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace phalanx::tokenizer {
namespace {

constexpr std::string_view kQwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::vector<std::string> matches(const Regex& regex, std::string_view subject) {
  std::vector<std::string> found;
  for (std::size_t at = 0; at < subject.size();) {
    const auto match = regex.find(subject, at);
    EXPECT_TRUE(match.has_value());
    if (!match || !match->has_value()) {
      break;
    }
    found.emplace_back(subject.substr((*match)->begin, (*match)->size()));
    at = (*match)->end;
  }
  return found;
}

TEST(TranslatePattern, LeavesWhatBothEnginesReadAlike) {
  for (const char* pattern : {R"(\p{L}+|\P{N})",
                              R"( ?[^\r\n\t\f]{1,3})",
                              R"((?i:'s|'t))",
                              R"((?<=a)b(?=c)(?!d)(?>e)(?:f)(?<!g))",
                              R"((?i)abc)",
                              R"(\.\[\]\\x)"}) {
    EXPECT_EQ(translate_pattern(pattern).value_or(std::string()), pattern);
  }
}

TEST(TranslatePattern, RefusesByNameWhatWouldMeanSomethingElse) {
  for (const char* pattern : {R"(\w+)",        R"(\bx)",
                              R"(\h)",         R"(\v)",
                              R"(\X)",         R"(\K)",
                              R"(\Ga)",        R"([[:alpha:]])",
                              R"([a&&b])",     R"([a[b]])",
                              R"([^a\S])",     R"(a(?i)b)",
                              R"((?m)x)",      R"((?<name>x))",
                              R"((*ACCEPT)x)", R"(\p{N}{1,3}+)",
                              R"(a{,3})",      R"([])",
                              R"(a\)",         R"(\pL)",
                              R"(\u12)",       R"([a)",
                              R"(a{2}?)",      R"([\x80-\xFF])",
                              R"(\p{L&})",     R"(\p{Script=Han})"}) {
    const auto translated = translate_pattern(pattern);
    ASSERT_FALSE(translated.has_value()) << pattern;
    EXPECT_EQ(translated.error().code(), Code::kUnimplemented) << pattern;
    EXPECT_THAT(translated.error().message(), testing::HasSubstr("not supported"));
  }
}

// "、" is used with Han and belongs to no script alone.
TEST(TranslatePattern, TakesTheCharactersOfAScriptAndNotThoseUsedWithIt) {
  EXPECT_EQ(*translate_pattern(R"([\p{Han}\p{Lo}]\P{^Hiragana}\p{Emoji})"),
            R"([\p{sc:Han}\p{Lo}]\P{^sc:Hiragana}\p{Emoji})");
  EXPECT_EQ(matches(*Regex::compile(R"(\p{Han}+)"), "漢字、漢"),
            (std::vector<std::string>{"漢字", "漢"}));
  EXPECT_EQ(matches(*Regex::compile(R"(\p{^Han}+)"), "漢字、漢"), (std::vector<std::string>{"、"}));
  EXPECT_EQ(matches(*Regex::compile(R"([\P{Han}])"), "漢、"), (std::vector<std::string>{"、"}));
}

TEST(Regex, CountsAsSpaceWhatOnigurumaCounts) {
  // PCRE2 alone takes U+180E for a space.
  const Regex space = *Regex::compile(R"(\s)");
  const Regex other = *Regex::compile(R"(\S)");
  const Regex in_class = *Regex::compile(R"([\sx])");
  const Regex not_in_class = *Regex::compile(R"([^\s])");
  const Regex other_in_class = *Regex::compile(R"([\S])");
  for (const char* c : {"\t",
                        "\n",
                        "\v",
                        "\f",
                        "\r",
                        " ",
                        "\u0085",
                        "\u00a0",
                        "\u1680",
                        "\u2000",
                        "\u200a",
                        "\u2028",
                        "\u2029",
                        "\u202f",
                        "\u205f",
                        "\u3000"}) {
    EXPECT_EQ(matches(space, c).size(), 1U) << c;
    EXPECT_EQ(matches(in_class, c).size(), 1U) << c;
    EXPECT_TRUE(matches(other, c).empty()) << c;
    EXPECT_TRUE(matches(not_in_class, c).empty()) << c;
    EXPECT_TRUE(matches(other_in_class, c).empty()) << c;
  }
  for (const char* c : {"\u180e", "\u200b", "\ufeff", "a"}) {
    EXPECT_TRUE(matches(space, c).empty()) << c;
    EXPECT_TRUE(matches(in_class, c).empty()) << c;
    EXPECT_EQ(matches(other, c).size(), 1U) << c;
    EXPECT_EQ(matches(not_in_class, c).size(), 1U) << c;
    EXPECT_EQ(matches(other_in_class, c).size(), 1U) << c;
  }
}

TEST(Regex, MatchesTheSameWhenItMayNotCompileToMachineCode) {
  const Regex fast = *Regex::compile(kQwen);
  const Regex slow = *Regex::compile(kQwen, Regex::Engine::kInterpreter);
  for (const char* text :
       {"Hello, world! it's 42\n\n  x", "\u65e5\u672c 123 \u00e9", "   ", "a\r\n b"}) {
    EXPECT_EQ(matches(fast, text), matches(slow, text));
  }
  const std::string long_text = std::string(300000, ' ') + "x" + std::string(300000, 'a');
  EXPECT_EQ(matches(fast, long_text).size(), 2U);
  EXPECT_EQ(matches(slow, long_text).size(), 2U);
}

TEST(Regex, GivesUpOnAPatternThatBacktracksWithoutEnd) {
  const Regex hostile = *Regex::compile("(a+)+[bc]");
  const auto match = hostile.find(std::string(200, 'a'), 0);
  ASSERT_FALSE(match.has_value());
  EXPECT_EQ(match.error().code(), Code::kResourceExhausted);
}

TEST(Regex, TakesALiteralAsItIs) {
  EXPECT_EQ(matches(*Regex::literal("a.b"), "axb a.b"), std::vector<std::string>{"a.b"});
  EXPECT_FALSE(Regex::literal("").has_value());
}

TEST(Regex, RefusesAPatternTooLong) {
  EXPECT_FALSE(Regex::compile(std::string(kMaxPatternBytes + 1, 'a')).has_value());
}

TEST(MatchTime, BoundsAllMatchesOfATextTogether) {
  const auto regex = Regex::compile("a");
  ASSERT_TRUE(regex);
  const std::string text(100, 'a');
  EXPECT_EQ(matches(*regex, text).size(), 100U);
  MatchTime time{Duration::zero()};
  std::size_t found = 0;
  Result<std::optional<ByteRange>> match = regex->find(text, 0);
  while (match && found < 100) {
    ++found;
    match = regex->find(text, found);
  }
  ASSERT_FALSE(match) << "no match of the text was refused";
  EXPECT_LT(found, 20U);
  EXPECT_EQ(match.error().code(), Code::kResourceExhausted);
  EXPECT_NE(match.error().message().find("CPU time"), std::string::npos);
}

TEST(MatchTime, EndsWithItsScope) {
  const auto regex = Regex::compile("a");
  ASSERT_TRUE(regex);
  { const MatchTime over{Duration::zero()}; }
  EXPECT_EQ(matches(*regex, std::string(100, 'a')).size(), 100U);
}

}  // namespace
}  // namespace phalanx::tokenizer
