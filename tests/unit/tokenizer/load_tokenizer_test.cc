// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/thread_time.h"

#include "test_data.h"

namespace phalanx::tokenizer {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct Refusal {
  const char* name;
  std::function<void(json&)> change;
  Code code;
  std::vector<const char*> message;
};

void expect_refused(const std::string& text,
                    Code code,
                    const std::vector<const char*>& message,
                    const std::string& config = {}) {
  const auto loaded = load_tokenizer_from_text(text, config);
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code(), code) << loaded.error().to_string();
  for (const char* part : message) {
    EXPECT_THAT(loaded.error().message(), HasSubstr(part));
  }
}

json stage(const char* type) {
  return {{"type", type}};
}

TEST(LoadTokenizer, RefusesByNameWhatItDoesNotHave) {
  const std::vector<Refusal> refusals{
      {"field", [](json& f) { f["novelty"] = 1; }, Code::kUnimplemented, {"novelty"}},
      {"model",
       [](json& f) { f["model"]["type"] = "Unigram"; },
       Code::kUnimplemented,
       {"model", "Unigram", "BPE"}},
      {"model field",
       [](json& f) { f["model"]["novelty"] = 1; },
       Code::kUnimplemented,
       {"model", "novelty"}},
      {"dropout",
       [](json& f) { f["model"]["dropout"] = 0.5; },
       Code::kUnimplemented,
       {"dropout", "0.5"}},
      {"byte fallback",
       [](json& f) { f["model"]["byte_fallback"] = true; },
       Code::kUnimplemented,
       {"byte_fallback"}},
      {"suffix",
       [](json& f) { f["model"]["end_of_word_suffix"] = "</w>"; },
       Code::kUnimplemented,
       {"end_of_word_suffix", "</w>"}},
      {"normalizer",
       [](json& f) { f["normalizer"] = stage("Lowercase"); },
       Code::kUnimplemented,
       {"normalizer", "Lowercase", "NFC"}},
      {"normalizer in a sequence",
       [](json& f) {
         f["normalizer"] = {{"type", "Sequence"}, {"normalizers", {stage("NFC"), stage("NFKC")}}};
       },
       Code::kUnimplemented,
       {"normalizer", "NFKC"}},
      {"pre-tokenizer",
       [](json& f) { f["pre_tokenizer"] = stage("Metaspace"); },
       Code::kUnimplemented,
       {"pre_tokenizer", "Metaspace"}},
      {"stage",
       [](json& f) { f["pre_tokenizer"]["pretokenizers"][0] = stage("Punctuation"); },
       Code::kUnimplemented,
       {"pre_tokenizer", "Punctuation"}},
      {"behavior",
       [](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Sideways"; },
       Code::kUnimplemented,
       {"Split", "Sideways"}},
      {"stage field",
       [](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["novelty"] = 1; },
       Code::kUnimplemented,
       {"Split", "novelty"}},
      {"no ByteLevel",
       [](json& f) { f["pre_tokenizer"]["pretokenizers"].erase(1); },
       Code::kUnimplemented,
       {"ByteLevel"}},
      {"decoder",
       [](json& f) { f["decoder"] = stage("WordPiece"); },
       Code::kUnimplemented,
       {"decoder", "WordPiece"}},
      {"post-processor",
       [](json& f) { f["post_processor"] = stage("BertProcessing"); },
       Code::kUnimplemented,
       {"post_processor", "BertProcessing"}},
      {"token field",
       [](json& f) { f["added_tokens"][0]["novelty"] = 1; },
       Code::kUnimplemented,
       {"added_tokens", "novelty"}},
      {"special token of ordinary text",
       [](json& f) {
         f["added_tokens"].push_back(
             {{"id", f["model"]["vocab"]["\u0120the"]}, {"content", " the"}, {"special", true}});
       },
       Code::kUnimplemented,
       {" the", "merging"}},
  };
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.name);
    json file = fixture_json();
    refusal.change(file);
    expect_refused(file.dump(), refusal.code, refusal.message);
  }
}

TEST(LoadTokenizer, RefusesContradictionsNamingThem) {
  const std::vector<Refusal> refusals{
      {"no model", [](json& f) { f.erase("model"); }, Code::kInvalidArgument, {"model"}},
      {"no decoder", [](json& f) { f.erase("decoder"); }, Code::kInvalidArgument, {"decoder"}},
      {"no merges",
       [](json& f) { f["model"].erase("merges"); },
       Code::kInvalidArgument,
       {"model", "merges"}},
      {"vocabulary is a list",
       [](json& f) {
         f["model"]["vocab"] = json::array({1, 2});
       },
       Code::kInvalidArgument,
       {"vocab"}},
      {"negative id",
       [](json& f) { f["model"]["vocab"]["zz"] = -1; },
       Code::kInvalidArgument,
       {"vocab", "zz", "-1"}},
      {"huge id",
       [](json& f) { f["model"]["vocab"]["zz"] = 1 << 30; },
       Code::kInvalidArgument,
       {"vocab", "zz", "1073741824"}},
      {"id is text",
       [](json& f) { f["model"]["vocab"]["zz"] = "1"; },
       Code::kInvalidArgument,
       {"vocab"}},
      {"id twice",
       [](json& f) { f["model"]["vocab"]["zz"] = 5; },
       Code::kInvalidArgument,
       {"vocab", "zz", "id 5"}},
      {"unknown side",
       [](json& f) {
         f["model"]["merges"].push_back({"a", "\u4e00"});
       },
       Code::kInvalidArgument,
       {"merges", "\u4e00"}},
      {"unknown result",
       [](json& f) {
         f["model"]["merges"].push_back({"~", "~"});
       },
       Code::kInvalidArgument,
       {"merges", "~"}},
      {"merge of three",
       [](json& f) {
         f["model"]["merges"].push_back({"a", "b", "c"});
       },
       Code::kInvalidArgument,
       {"merges", "two"}},
      {"merge without space",
       [](json& f) { f["model"]["merges"].push_back("ab"); },
       Code::kInvalidArgument,
       {"merges", "ab"}},
      {"added token without content",
       [](json& f) { f["added_tokens"][0]["content"] = ""; },
       Code::kInvalidArgument,
       {"added_tokens"}},
      {"added token of another id",
       [](json& f) { f["added_tokens"][0]["id"] = 3; },
       Code::kInvalidArgument,
       {"added_tokens", "<|endoftext|>"}},
      {"bad flag",
       [](json& f) { f["added_tokens"][0]["lstrip"] = "yes"; },
       Code::kInvalidArgument,
       {"added_tokens", "lstrip"}},
      {"pattern that matches nothing",
       [](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "a*"; },
       Code::kInvalidArgument,
       {"pre_tokenizer", "a*"}},
      {"broken pattern",
       [](json& f) { f["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a"; },
       Code::kInvalidArgument,
       {"pre_tokenizer", "(a"}},
  };
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.name);
    json file = fixture_json();
    refusal.change(file);
    expect_refused(file.dump(), refusal.code, refusal.message);
  }
}

TEST(LoadTokenizer, RefusesAFileCutAnywhere) {
  const std::string whole = fixture_json().dump();
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 97) {
    EXPECT_FALSE(load_tokenizer_from_text(whole.substr(0, bytes)).has_value()) << bytes;
  }
  EXPECT_FALSE(load_tokenizer_from_text(whole + "{}").has_value());
  EXPECT_TRUE(load_tokenizer_from_text(whole + "\n").has_value());
}

TEST(LoadTokenizer, RefusesAFieldThatStandsTwice) {
  std::string text = fixture_json().dump();
  text.insert(1, "\"version\":\"1.0\",");
  expect_refused(text, Code::kInvalidArgument, {"version", "twice"});
  // Anywhere in the files, not only at the top.
  const std::string whole = fixture_json().dump();
  expect_refused(whole,
                 Code::kInvalidArgument,
                 {"eos_token", "twice"},
                 R"({"eos_token":"a","eos_token":"b"})");
  std::string nested = whole;
  nested.insert(nested.find("\"decoder\":{") + 11, "\"type\":\"Fuse\",");
  expect_refused(nested, Code::kInvalidArgument, {"decoder", "type", "twice"});
}

TEST(LoadTokenizer, SaysWhereAFileIsNoJsonAndWhatStoodInstead) {
  const std::string whole = fixture_json().dump();
  expect_refused(
      whole, Code::kInvalidArgument, {"file", "not valid JSON at byte"}, "{\"eos_token\": nope}");
  expect_refused(whole, Code::kInvalidArgument, {"nested deeper than 64"}, std::string(70, '['));
  // What is shown is cut between characters.
  json file = fixture_json();
  const std::string content = std::string(46, 'x') + "\u4e00\u4e00\u4e00\u4e00\u4e00";
  file["added_tokens"] = json::array({{{"content", content}}});
  expect_refused(file.dump(), Code::kInvalidArgument, {"expected a token with an id", "xx…"});
}

TEST(LoadTokenizer, ReadsMergesOfBothSpellings) {
  json file = fixture_json();
  for (json& merge : file["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  const auto tokenizer = load_json(file);
  ASSERT_NE(tokenizer, nullptr);
  const std::string text = "The server counts 42 tokens.";
  EXPECT_EQ(*tokenizer->encode(text), *fixture().encode(text));
}

TEST(LoadTokenizer, TakesNamedTokensAndTemplateFromTheConfig) {
  const json config{{"eos_token", "<|im_end|>"},
                    {"bos_token", nullptr},
                    {"pad_token", {{"content", "<|endoftext|>"}, {"special", true}}},
                    {"unk_token", "not in the vocabulary"},
                    {"chat_template", "{{ messages }}"},
                    {"model_max_length", 2048}};
  const auto tokenizer = load_json(fixture_json(), config);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->eos_id(), fixture().id_of("<|im_end|>"));
  EXPECT_EQ(tokenizer->pad_id(), fixture().id_of("<|endoftext|>"));
  EXPECT_EQ(tokenizer->bos_id(), std::nullopt);
  EXPECT_EQ(tokenizer->chat_template(), "{{ messages }}");
  ASSERT_EQ(tokenizer->named_tokens().size(), 3U);
  EXPECT_EQ(tokenizer->named_tokens()[1].name, "unk_token");
  EXPECT_EQ(tokenizer->named_tokens()[1].id, std::nullopt);
}

// transformers makes the post-processor of these classes anew, by the flags.
TEST(LoadTokenizer, TheClassesOfLlamaSayThemselvesWhatStandsAroundAText) {
  const auto around = [](json config) {
    config["bos_token"] = "<|im_start|>";
    config["eos_token"] = "<|im_end|>";
    const auto tokenizer = load_json(fixture_json(), config);
    std::vector<TokenId> ids = *tokenizer->encode("a", {.add_special_tokens = true});
    const std::vector<TokenId> inner = *tokenizer->encode("a");
    EXPECT_NE(std::ranges::search(ids, inner).begin(), ids.end());
    return std::pair(ids.front() == tokenizer->bos_id(), ids.back() == tokenizer->eos_id());
  };
  EXPECT_EQ(around({{"tokenizer_class", "LlamaTokenizerFast"}}), std::pair(true, false));
  EXPECT_EQ(around({{"tokenizer_class", "LlamaTokenizer"},
                    {"add_bos_token", false},
                    {"add_eos_token", true}}),
            std::pair(false, true));
  EXPECT_EQ(around({{"tokenizer_class", "Qwen2Tokenizer"}, {"add_bos_token", true}}),
            std::pair(false, false))
      << "nobody reads it there";
  expect_refused(fixture_json().dump(),
                 Code::kInvalidArgument,
                 {"add_bos_token", "vocabulary"},
                 R"({"tokenizer_class": "LlamaTokenizerFast", "bos_token": "no such"})");
}

TEST(LoadTokenizer, TakesTheTemplateNamedDefault) {
  const json config{
      {"chat_template",
       {{{"name", "other"}, {"template", "o"}}, {{"name", "default"}, {"template", "d"}}}}};
  EXPECT_EQ(load_json(fixture_json(), config)->chat_template(), "d");
  EXPECT_EQ(load_json(fixture_json(), config)->tool_use_template(), "");
}

TEST(LoadTokenizer, TakesTheTemplateNamedToolUse) {
  const json listed{
      {"chat_template",
       {{{"name", "default"}, {"template", "d"}}, {{"name", "tool_use"}, {"template", "t"}}}}};
  const json by_name{{"chat_template", {{"default", "d"}, {"tool_use", "t"}, {"rag", "r"}}}};
  for (const json& config : {listed, by_name}) {
    const auto tokenizer = load_json(fixture_json(), config);
    EXPECT_EQ(tokenizer->chat_template(), "d");
    EXPECT_EQ(tokenizer->tool_use_template(), "t");
  }
}

TEST(LoadTokenizer, AddsTheTokensThatOnlyTheConfigHas) {
  const auto id = static_cast<TokenId>(fixture().vocab_size());
  const json config{{"added_tokens_decoder",
                     {{std::to_string(id), {{"content", "<|new|>"}, {"special", true}}}}}};
  const auto tokenizer = load_json(fixture_json(), config);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(*tokenizer->encode("<|new|>", {.parse_special = true}), std::vector<TokenId>{id});
}

// tokenizer_config.json is read last, and what it adds may have the bytes of a piece of text.
TEST(LoadTokenizer, WhatOnlyTheConfigHasIsNoPieceOfOrdinaryText) {
  constexpr TokenId kId = kMaxTokenId;
  const json added{{std::to_string(kId),
                    {{"content", " information"}, {"special", true}, {"normalized", false}}}};
  const auto tokenizer = load_json(fixture_json(), {{"added_tokens_decoder", added}});
  ASSERT_NE(tokenizer, nullptr);
  const std::string text = "More information is here.";
  EXPECT_EQ(*tokenizer->encode(text), *fixture().encode(text));
  EXPECT_THAT(*tokenizer->encode(text, {.parse_special = true}), testing::Contains(kId));
}

// As in CodeLlama: the space of a token is written as the vocabulary writes it, in both files.
TEST(LoadTokenizer, ReadsTheMarksOfAddedTokensAsSpacesInBothFiles) {
  json file = json::parse(read_text(data_folder() / "sentencepiece" / "tokenizer.json"));
  const auto id = static_cast<TokenId>(load_json(file)->vocab_size());
  const json pre{{"id", id}, {"content", "\u2581<PRE>"}, {"special", true}, {"normalized", false}};
  file["added_tokens"].push_back(pre);
  json listed = pre;
  listed.erase("id");
  const json suf{{"content", "\u2581<SUF>"}, {"special", true}, {"normalized", false}};
  const auto tokenizer = load_json(
      file,
      {{"pad_token", "\u2581<PRE>"},
       {"added_tokens_decoder", {{std::to_string(id), listed}, {std::to_string(id + 1), suf}}}});
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->token_bytes(id), " <PRE>");
  EXPECT_EQ(tokenizer->token_bytes(id + 1), " <SUF>");
  EXPECT_EQ(tokenizer->pad_id(), id);
  EXPECT_EQ(*tokenizer->encode("\u2581<PRE>\u2581<SUF>", {.parse_special = true}),
            (std::vector<TokenId>{id, id + 1}));
}

// What the configuration says of tokens that are there already counts, and roles are special.
TEST(LoadTokenizer, TakesFlagsFromTheConfigAndRolesAsSpecial) {
  json file = fixture_json();
  const auto id = static_cast<TokenId>(fixture().vocab_size());
  file["added_tokens"].push_back({{"id", id}, {"content", "<end>"}, {"special", false}});
  file["model"]["vocab"]["<|bos|>"] = id + 1;
  file["model"]["vocab"]["<|more|>"] = id + 2;
  const json end{{std::to_string(id), {{"content", "<end>"}, {"special", true}, {"rstrip", true}}}};
  const json config{{"bos_token", "<|bos|>"},
                    {"additional_special_tokens", {"<|more|>"}},
                    {"pad_token", "<|none|>"},
                    {"added_tokens_decoder", end}};
  const auto plain = load_json(file, {});
  EXPECT_EQ(*plain->encode("<end>"), std::vector<TokenId>{id}) << "a client can write it";
  for (const json& one : {config, json{{"eos_token", "<end>"}}}) {
    const auto tokenizer = load_json(file, one);
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_GT(tokenizer->encode("<end>")->size(), 1U);
    EXPECT_EQ(*tokenizer->encode("<end>", {.parse_special = true}), std::vector<TokenId>{id});
  }
  const auto tokenizer = load_json(file, config);
  const EncodeOptions special{.parse_special = true};
  EXPECT_EQ(*tokenizer->encode("<|bos|><|more|><end> \n", special),
            (std::vector<TokenId>{id + 1, id + 2, id}));
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{id + 1, id + 2, id}, {.skip_special = true}),
            "");
  EXPECT_EQ(tokenizer->pad_id(), std::nullopt);
}

// Some checkpoints pad with "!" or a word: answers have it all the same, and prompts as well.
TEST(LoadTokenizer, KeepsWhatOrdinaryTextIsMadeOfOrdinary) {
  const TokenId mark = fixture().encode("!")->front();
  json file = fixture_json();
  file["added_tokens"].push_back({{"id", mark}, {"content", "!"}, {"special", true}});
  const json& merge = file["model"]["merges"][0];
  const std::string word =
      merge.is_array()
          ? merge[0].get<std::string>() + merge[1].get<std::string>()
          : std::string(merge.get<std::string>()).erase(merge.get<std::string>().find(' '), 1);
  const std::string text =
      fixture().decode(std::vector<TokenId>{file["model"]["vocab"][word].get<TokenId>()});
  const json listed{{"added_tokens_decoder",
                     {{std::to_string(file["model"]["vocab"][word].get<TokenId>()),
                       {{"content", text}, {"special", true}}}}}};
  for (const auto& [tokenizer, config, padding] : std::vector<std::tuple<json, json, std::string>>{
           {fixture_json(), {{"pad_token", "!"}}, "!"},
           {file, {{"pad_token", "!"}}, "!"},
           {fixture_json(), {{"pad_token", text}}, text},
           {fixture_json(), listed, text}}) {
    const auto loaded = load_json(tokenizer, config);
    ASSERT_NE(loaded, nullptr);
    const std::vector<TokenId> ids = *loaded->encode(padding);
    EXPECT_EQ(ids.size(), 1U);
    EXPECT_FALSE(loaded->is_special(ids[0])) << padding;
    EXPECT_EQ(loaded->decode(ids, {.skip_special = true}), padding);
    EXPECT_EQ(loaded->pad_id(),
              config.contains("pad_token") ? std::optional(ids[0]) : std::nullopt);
  }
}

TEST(LoadTokenizer, TakesNoPieceAsARoleWhereMergesAreIgnored) {
  json file = fixture_json();
  file["model"]["ignore_merges"] = true;
  const auto id = static_cast<TokenId>(fixture().vocab_size());
  file["model"]["vocab"]["zqzq"] = id;
  EXPECT_EQ(*load_json(file)->encode("zqzq"), std::vector<TokenId>{id});
  const auto tokenizer = load_json(file, {{"pad_token", "zqzq"}});
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_TRUE(tokenizer->is_special(id));
  EXPECT_GT(tokenizer->encode("zqzq")->size(), 1U);
  EXPECT_EQ(*tokenizer->encode("zqzq", {.parse_special = true}), std::vector<TokenId>{id});
}

TEST(LoadTokenizer, LeavesOutTheAddedTokensThatTheModelHasNoRoomFor) {
  const auto tokens = static_cast<std::uint32_t>(fixture().vocab_size());
  json file = fixture_json();
  file["added_tokens"].push_back({{"id", tokens + 1}, {"content", "[PAD]"}, {"special", true}});
  const json config{{"pad_token", "[PAD]"},
                    {"added_tokens_decoder",
                     {{std::to_string(tokens), {{"content", "<|new|>"}, {"special", true}}},
                      {std::to_string(tokens + 1), {{"content", "[PAD]"}, {"special", true}}}}}};
  const auto whole = load_tokenizer_from_text(file.dump(), config.dump());
  ASSERT_TRUE(whole) << whole.error().to_string();
  EXPECT_EQ((*whole)->vocab_size(), tokens + 2);
  EXPECT_TRUE((*whole)->left_out().empty());
  const auto cut = load_tokenizer_from_text(file.dump(), config.dump(), {}, tokens);
  ASSERT_TRUE(cut) << cut.error().to_string();
  EXPECT_EQ((*cut)->vocab_size(), tokens);
  EXPECT_EQ((*cut)->pad_id(), std::nullopt);
  EXPECT_THAT((*cut)->left_out(), testing::ElementsAre("[PAD]", "<|new|>"));
  const EncodeOptions special{.parse_special = true};
  EXPECT_EQ(*(*cut)->encode("a[PAD]<|new|>", special), *fixture().encode("a[PAD]<|new|>", special));
  const auto one_more = load_tokenizer_from_text(file.dump(), config.dump(), {}, tokens + 1);
  ASSERT_TRUE(one_more) << one_more.error().to_string();
  EXPECT_THAT((*one_more)->left_out(), testing::ElementsAre("[PAD]"));
}

// With the square of their number it would take half a minute.
TEST(LoadTokenizer, LeavesOutAsManyAsTheFilesMayHave) {
  const auto tokens = static_cast<std::uint32_t>(fixture().vocab_size());
  json file = fixture_json();
  file["added_tokens"] = json::array();
  json listed = json::object();
  for (std::size_t i = 0; i < kMaxAddedTokens; ++i) {
    const std::string number = std::to_string(100'000 + i);
    file["added_tokens"].push_back({{"id", tokens + i}, {"content", "<" + number + ">"}});
    listed[std::to_string(tokens + i)] = {{"content", "[" + number + "]"}};
  }
  const CpuTimeLimit limit(std::chrono::seconds(10));
  const auto cut = load_tokenizer_from_text(
      file.dump(), json{{"added_tokens_decoder", listed}}.dump(), {}, tokens);
  EXPECT_FALSE(limit.passed());
  ASSERT_TRUE(cut) << cut.error().to_string();
  EXPECT_EQ((*cut)->left_out().size(), 2 * kMaxAddedTokens);
}

TEST(LoadTokenizer, RefusesToSplitSpecialTokens) {
  const std::string tokenizer = fixture_json().dump();
  EXPECT_TRUE(load_tokenizer_from_text(tokenizer, R"({"split_special_tokens": false})"));
  expect_refused(tokenizer,
                 Code::kUnimplemented,
                 {"split_special_tokens", "expected false"},
                 R"({"split_special_tokens": true})");
}

TEST(LoadTokenizer, RefusesABadConfig) {
  const std::string tokenizer = fixture_json().dump();
  const std::vector<std::pair<std::string, const char*>> configs{
      {"{", "tokenizer_config.json"},
      {"[]", "tokenizer_config.json"},
      {R"({"eos_token": 5})", "eos_token"},
      {R"({"additional_special_tokens": "<a>"})", "additional_special_tokens"},
      {R"({"extra_special_tokens": [5]})", "extra_special_tokens"},
      {R"({"chat_template": 5})", "chat_template"},
      {R"({"chat_template": []})", "default"},
      {R"({"chat_template": {"tool_use": "t"}})", "default"},
      {R"({"chat_template": {"default": 5}})", "default"},
      {R"({"added_tokens_decoder": {"x": {"content": "y"}}})", "\"x\""},
      {R"({"added_tokens_decoder": {"3": {"content": "yy"}}})", "yy"}};
  for (const auto& [config, part] : configs) {
    expect_refused(tokenizer, Code::kInvalidArgument, {part}, config);
  }
}

TEST(LoadTokenizer, ReadsAFolder) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "phalanx_tokenizer_test_folder";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(data_folder() / "fixture" / "tokenizer.json",
                             folder / "tokenizer.json",
                             std::filesystem::copy_options::overwrite_existing);
  std::ofstream(folder / "tokenizer_config.json") << R"({"chat_template": "from config"})";
  EXPECT_EQ((*load_tokenizer(folder))->chat_template(), "from config");
  std::ofstream(folder / "chat_template.json")
      << R"({"chat_template": {"default": "from json", "tool_use": "tools from json"}})";
  EXPECT_EQ((*load_tokenizer(folder))->chat_template(), "from json");
  EXPECT_EQ((*load_tokenizer(folder))->tool_use_template(), "tools from json");
  std::ofstream(folder / "chat_template.jinja") << "from file";
  EXPECT_EQ((*load_tokenizer(folder))->chat_template(), "from file");
  EXPECT_EQ((*load_tokenizer(folder))->tool_use_template(), "");
  std::filesystem::create_directories(folder / "additional_chat_templates");
  std::ofstream(folder / "additional_chat_templates" / "tool_use.jinja") << "tools from file";
  EXPECT_EQ((*load_tokenizer(folder))->tool_use_template(), "tools from file");
  std::ofstream(folder / "chat_template.jinja") << std::string(kMaxTemplateBytes + 1, 'x');
  EXPECT_EQ(load_tokenizer(folder).error().code(), Code::kInvalidArgument);
  std::filesystem::remove_all(folder);
  const auto missing = load_tokenizer(folder);
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code(), Code::kNotFound);
  EXPECT_THAT(missing.error().message(), HasSubstr("tokenizer.json"));
}

}  // namespace
}  // namespace phalanx::tokenizer
