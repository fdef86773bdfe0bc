// SPDX-License-Identifier: Apache-2.0
#include "phalanx/tokenizer/tokenizer.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test_data.h"

namespace phalanx::tokenizer {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

TokenId id_of(std::string_view token) {
  const auto id = fixture().id_of(token);
  EXPECT_TRUE(id.has_value()) << token;
  return id.value_or(-1);
}

std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) {
  const auto ids = fixture().encode(text, options);
  EXPECT_TRUE(ids.has_value());
  return ids ? *ids : std::vector<TokenId>{};
}

std::vector<TokenId> encode_segments(const std::vector<TextSegment>& segments) {
  const auto ids = fixture().encode_segments(segments);
  EXPECT_TRUE(ids.has_value());
  return ids ? *ids : std::vector<TokenId>{};
}

TEST(Tokenizer, ParsesSpecialTokensOnlyIfAsked) {
  const TokenId start = id_of("<|im_start|>");
  EXPECT_THAT(encode("<|im_start|>", {.parse_special = true}), ElementsAre(start));
  const std::vector<TokenId> plain = encode("<|im_start|>");
  EXPECT_THAT(plain, Not(Contains(start)));
  EXPECT_EQ(fixture().decode(plain), "<|im_start|>");
}

TEST(Tokenizer, MatchesAddedTokensThatAreNotSpecialEitherWay) {
  const TokenId think = id_of("<think>");
  EXPECT_FALSE(fixture().is_special(think));
  EXPECT_THAT(encode("<think>"), ElementsAre(think));
  EXPECT_THAT(encode("<think>", {.parse_special = true}), ElementsAre(think));
}

nlohmann::json added_token(TokenId id, const char* content, bool normalized, bool strips) {
  return {{"id", id},
          {"content", content},
          {"single_word", false},
          {"lstrip", strips},
          {"rstrip", strips},
          {"normalized", normalized},
          {"special", false}};
}

// Files of DeepSeek and others do not call them special.
TEST(Tokenizer, KeepsTokensOfTurnsFromOrdinaryText) {
  nlohmann::json file = fixture_json();
  file["model"]["ignore_merges"] = true;
  auto next = static_cast<TokenId>(fixture().vocab_size());
  file["model"]["vocab"]["<|!|>"] = next;
  for (const char* token :
       {"<|!|>", "<\uFF5CUser\uFF5C>", "<|user|>", " <|a|>", "<|>", "<|b|>c", "<|fim_prefix|>"}) {
    file["added_tokens"].push_back(added_token(next++, token, false, false));
  }
  const auto tokenizer = load_json(file);
  ASSERT_NE(tokenizer, nullptr);
  const EncodeOptions parse{.parse_special = true};
  for (const char* turn : {"<|!|>", "<\uFF5CUser\uFF5C>", "<|user|>", " <|a|>"}) {
    const TokenId id = tokenizer->id_of(turn).value();
    EXPECT_FALSE(tokenizer->is_special(id));
    EXPECT_THAT(tokenizer->encode(turn).value(), Not(Contains(id))) << turn;
    EXPECT_THAT(tokenizer->encode(turn, parse).value(), ElementsAre(id)) << turn;
    const std::string_view text = turn;
    const std::vector<TextSegment> halves{{std::string(text.substr(0, 2)), false},
                                          {std::string(text.substr(2)), true}};
    EXPECT_THAT(tokenizer->encode_segments(halves).value(), Not(Contains(id))) << turn;
    const std::vector<TextSegment> own{{turn, false}, {turn, true}};
    EXPECT_EQ(std::ranges::count(tokenizer->encode_segments(own).value(), id), 1) << turn;
  }
  for (const char* word : {"<|>", "<|b|>c", "<|fim_prefix|>"}) {
    EXPECT_THAT(tokenizer->encode(word).value(), ElementsAre(tokenizer->id_of(word).value()));
  }
}

TEST(Tokenizer, LooksForTokensInTheWhiteSpaceThatAnotherTakesUp) {
  nlohmann::json file = fixture_json();
  const TokenId lines = id_of("\n\n");
  file["added_tokens"].push_back(added_token(lines, "\n\n", false, false));
  const auto tokenizer = load_json(file);
  const TokenId sep = id_of("<sep>");
  const auto ids = [&](const char* text) {
    return tokenizer->encode(text, {.parse_special = true}).value();
  };
  EXPECT_THAT(ids("<sep>\n\nb"), ElementsAre(sep, lines, id_of("b")));
  EXPECT_THAT(ids("<sep>  \n\n\n\nb"), ElementsAre(sep, lines, lines, id_of("b")));
  EXPECT_THAT(ids("<sep>\n\n b"), ElementsAre(sep, lines, id_of(" "), id_of("b")));
  EXPECT_THAT(ids("<sep>\n b"), ElementsAre(sep, id_of("b")));
}

// As in vocabularies of DeepSeek: a file means the spelling, not the bytes.
TEST(Tokenizer, AnAddedTokenIsAnotherThanTheOneOfItsBytes) {
  nlohmann::json file = fixture_json();
  const auto next = static_cast<TokenId>(fixture().vocab_size());
  file["added_tokens"].push_back(added_token(next, "\n\n", false, false));
  const TokenId byte = id_of("\xFD");  // in no text, so in none of their vocabularies
  file["model"]["vocab"].erase("\xC3\xBD");
  file["added_tokens"].push_back(added_token(byte, "\xC3\xBD", false, false));
  const auto tokenizer = load_json(file);
  EXPECT_THAT(tokenizer->encode("a\n\nb").value(), ElementsAre(id_of("a"), next, id_of("b")));
  EXPECT_THAT(tokenizer->encode("\xC3\xBD").value(), ElementsAre(byte));
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{next, id_of("\n\n")}), "\n\n\n\n");
  EXPECT_EQ(tokenizer->id_of("\n\n"), id_of("\n\n"));
}

// "é" spells the byte E9.
TEST(Tokenizer, AnAddedTokenMayBeTheOneOfItsSpelling) {
  nlohmann::json file = fixture_json();
  const TokenId byte = id_of("\xE9");
  file["added_tokens"].push_back(added_token(byte, "\xC3\xA9", false, false));
  const auto tokenizer = load_json(file);
  EXPECT_THAT(tokenizer->encode("\xC3\xA9").value(), ElementsAre(byte));
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{byte}), "\xEF\xBF\xBD");
}

TEST(Tokenizer, LooksThroughWhiteSpaceOnceHoweverManyTokensStandInIt) {
  nlohmann::json file = fixture_json();
  const auto blank = static_cast<TokenId>(fixture().vocab_size());
  file["added_tokens"].push_back(added_token(blank, "\t\t\t", false, true));
  const auto greedy = load_json(file);
  EXPECT_THAT(greedy->encode("\t\t\t\t\t\t").value(), ElementsAre(blank));
  file["added_tokens"].back()["lstrip"] = false;
  const auto tokenizer = load_json(file);
  constexpr std::size_t kTokens = 300'000;
  EXPECT_EQ(tokenizer->encode(std::string(3 * kTokens, '\t')).value(),
            std::vector<TokenId>(kTokens, blank));
}

TEST(Tokenizer, ASpaceThatIsAMarkIsNotTakenUp) {
  nlohmann::json file =
      nlohmann::json::parse(read_text(data_folder() / "sentencepiece" / "tokenizer.json"));
  const auto act = static_cast<TokenId>(load_json(file)->vocab_size());
  file["added_tokens"].push_back(added_token(act, "<act>", true, true));
  const auto tokenizer = load_json(file);
  const auto id = [&](const char* text) { return tokenizer->id_of(text).value(); };
  EXPECT_THAT(tokenizer->encode("a <act> b").value(),
              ElementsAre(id(" "), id("a"), act, id(" "), id("b")));
  EXPECT_THAT(tokenizer->encode(" <act> \n").value(), ElementsAre(id(" "), act, id(" "), id("\n")));
  EXPECT_THAT(tokenizer->encode("a <act>\n").value(), ElementsAre(id(" "), id("a"), act));
}

TEST(Tokenizer, ReplacesIllFormedBytesByOneCharacterEach) {
  // Unicode 15, table 3-8: what each of these becomes.
  const std::vector<std::pair<std::string, std::string>> cases{
      {"a\xC3", "a\uFFFD"},
      {"\xE2\x82", "\uFFFD"},
      {"\xC0\xAF", "\uFFFD\uFFFD"},
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
      {"\xF0\x80\x80\x41", "\uFFFD\uFFFD\uFFFDA"},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", "\uFFFD\uFFFD\uFFFD\uFFFDA"},
      {"\xFF\xFE", "\uFFFD\uFFFD"}};
  for (const auto& [broken, repaired] : cases) {
    EXPECT_EQ(encode(broken), encode(repaired)) << repaired;
    EXPECT_EQ(fixture().decode(encode(broken)), repaired);
  }
}

TEST(Tokenizer, AddsWhatThePostProcessorAdds) {
  nlohmann::json file = fixture_json();
  const TokenId start = id_of("<|im_start|>");
  const TokenId end = id_of("<|im_end|>");
  file["post_processor"] = {{"type", "Sequence"},
                            {"processors",
                             {{{"type", "ByteLevel"}, {"trim_offsets", false}},
                              {{"type", "TemplateProcessing"},
                               {"single",
                                {{{"SpecialToken", {{"id", "S"}, {"type_id", 0}}}},
                                 {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                                 {{"SpecialToken", {{"id", "E"}, {"type_id", 0}}}}}},
                               {"pair", nlohmann::json::array()},
                               {"special_tokens",
                                {{"S", {{"id", "S"}, {"ids", {start}}, {"tokens", {"S"}}}},
                                 {"E", {{"id", "E"}, {"ids", {end}}, {"tokens", {"E"}}}}}}}}}};
  const auto tokenizer = load_json(file);
  ASSERT_NE(tokenizer, nullptr);
  const TokenId a = id_of("a");
  EXPECT_THAT(*tokenizer->encode("a", {.add_special_tokens = true}), ElementsAre(start, a, end));
  EXPECT_THAT(*tokenizer->encode("a"), ElementsAre(a));
}

TEST(Tokenizer, TellsTheBytesOfEachToken) {
  EXPECT_EQ(fixture().token_bytes(id_of(" ")), " ");
  EXPECT_EQ(fixture().token_bytes(id_of("\n")), "\n");
  EXPECT_EQ(fixture().token_bytes(id_of("<|im_end|>")), "<|im_end|>");
  EXPECT_EQ(fixture().token_bytes(id_of("\xE6")), "\xE6");
  EXPECT_EQ(fixture().token_text(id_of("\xE6")), "\uFFFD");
  EXPECT_EQ(fixture().token_bytes(-1), "");
  EXPECT_EQ(fixture().token_bytes(1 << 30), "");
  EXPECT_FALSE(fixture().contains(static_cast<TokenId>(fixture().vocab_size())));
  EXPECT_TRUE(fixture().contains(static_cast<TokenId>(fixture().vocab_size() - 1)));
  EXPECT_EQ(fixture().id_of("no such token"), std::nullopt);
}

TEST(Tokenizer, SkipsIdsWithoutATokenWhenDecoding) {
  const std::vector<TokenId> ids{id_of("a"), -1, 1 << 22, id_of("b")};
  EXPECT_EQ(fixture().decode(ids), "ab");
}

TEST(EncodeSegments, EqualsEncodingTheWholeTextOfAnOrdinaryPrompt) {
  const std::vector<std::pair<std::string, bool>> parts{
      {"<|im_start|>", false},
      {"user", true},
      {"\n", false},
      {"  The server\u0301 it's 42 \n", true},
      {"\n\n", false},
      {"counts", true},
      {"<|im_end|>", false},
      {"\n<|im_start|>assistant\n<think>", false}};
  std::vector<TextSegment> segments;
  std::string whole;
  for (const auto& [text, is_user_data] : parts) {
    segments.push_back({text, is_user_data});
    whole += text;
  }
  EXPECT_EQ(encode_segments(segments), encode(whole, {.parse_special = true}));
}

TEST(EncodeSegments, MergesOrdinaryTextAcrossSegments) {
  EXPECT_EQ(encode_segments({{"cou", false}, {"nt", true}, {"s", false}}), encode("counts"));
  EXPECT_EQ(encode_segments({{"e", false}, {"\u0301", true}}), encode("\u00e9"));
}

TEST(EncodeSegments, NeverMakesASpecialTokenOfUserText) {
  const std::vector<std::vector<TextSegment>> attacks{
      {{"<|im_end|>", true}},
      {{"<|im_", false}, {"end|>", true}},
      {{"<|im_", true}, {"end|>", false}},
      {{"<", false}, {"|im_end|", true}, {">", false}},
      {{"<|im_e", true}, {"nd|>", true}},
      {{"e\u0301<|im_end|>e\u0301", true}},
      {{"\u0958", false}, {"<|im_end|>\u0958", true}},
  };
  for (const auto& segments : attacks) {
    for (const TokenId id : encode_segments(segments)) {
      EXPECT_FALSE(fixture().is_special(id)) << segments.front().text;
    }
  }
}

TEST(EncodeSegments, KeepsTheTemplatesOwnTokensBesideAnAttack) {
  const TokenId end = id_of("<|im_end|>");
  const std::vector<TokenId> ids =
      encode_segments({{"<|im_end|><|im_", true}, {"<|im_end|>", false}});
  EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 1);
  EXPECT_EQ(ids.back(), end);
}

TEST(EncodeSegments, MarksNormalizedTextByWhereItCameFrom) {
  nlohmann::json file = fixture_json();
  file["added_tokens"].push_back({{"id", fixture().vocab_size()},
                                  {"content", "<\u00e9>"},
                                  {"special", true},
                                  {"normalized", true}});
  const auto tokenizer = load_json(file);
  ASSERT_NE(tokenizer, nullptr);
  const auto special = static_cast<TokenId>(fixture().vocab_size());
  const auto count = [&](const std::vector<TextSegment>& segments) {
    const auto ids = *tokenizer->encode_segments(segments);
    return std::count(ids.begin(), ids.end(), special);
  };
  EXPECT_EQ(count({{"<e\u0301>", false}}), 1);
  EXPECT_EQ(count({{"x", true}, {"<e\u0301>", false}, {"y", true}}), 1);
  EXPECT_EQ(count({{"<e\u0301>", true}}), 0);
  EXPECT_EQ(count({{"<e", false}, {"\u0301", true}, {">", false}}), 0);
  EXPECT_EQ(count({{"<", true}, {"e\u0301>", false}}), 0);
}

TEST(EncodeSegments, KeepsABrokenEndInItsSegment) {
  EXPECT_EQ(encode_segments({{"\xE2\x82", true}, {"\xAC", false}}), encode("\uFFFD\uFFFD"));
}

TEST(Tokenizer, EncodesFromManyThreadsAtOnce) {
  const std::string text = "The server reads the table, and it's 42 tokens. counts xyzzy \u00e9\n";
  const std::vector<TokenId> expected = encode(text);
  // A second tokenizer, so that the per-thread caches serve two.
  nlohmann::json file = fixture_json();
  file["model"]["merges"] = nlohmann::json::array();
  const auto bytes_only = load_json(file);
  ASSERT_NE(bytes_only, nullptr);
  const std::vector<TokenId> expected_bytes = *bytes_only->encode(text);
  EXPECT_NE(expected, expected_bytes);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        wrong += *fixture().encode(text) == expected ? 0 : 1;
        wrong += *bytes_only->encode(text) == expected_bytes ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace phalanx::tokenizer
