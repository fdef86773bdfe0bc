// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/tokenizer/incremental_decoder.h"

#include "test_data.h"

namespace phalanx::tokenizer {
namespace {

std::vector<TokenId> ids_of(const nlohmann::json& golden,
                            const char* name,
                            const std::vector<TokenId>& fallback) {
  return golden.contains(name) ? golden[name].get<std::vector<TokenId>>() : fallback;
}

void expect_golden(const Tokenizer& tokenizer, const nlohmann::json& golden) {
  const auto text = golden["text"].get<std::string>();
  const auto ids = golden["ids"].get<std::vector<TokenId>>();
  const auto parsed = tokenizer.encode(text, {.parse_special = true});
  const auto plain = tokenizer.encode(text);
  ASSERT_TRUE(parsed && plain) << golden;
  EXPECT_EQ(*parsed, ids) << golden;
  EXPECT_EQ(*plain, ids_of(golden, "plain_ids", ids)) << golden;
  EXPECT_EQ(tokenizer.decode(ids, {.skip_special = false}), golden.value("decoded", text));
  EXPECT_EQ(tokenizer.decode(ids), golden.value("skipped", text));
  IncrementalDecoder decoder(tokenizer);
  std::string streamed;
  for (const TokenId id : ids) {
    streamed += decoder.push(id);
  }
  EXPECT_EQ(streamed + decoder.finish(), golden.value("skipped", text));
}

// What the tokenizers library computed (tools/make_tokenizer_goldens) for the fixture with every
// kind of pre-tokenizer.
TEST(TokenizerGoldens, EqualTheTokenizersLibrary) {
  const auto variants = nlohmann::json::parse(read_text(data_folder() / "tokenizer_goldens.json"));
  ASSERT_GE(variants.size(), 10U);
  std::size_t cases = 0;
  for (const nlohmann::json& variant : variants) {
    SCOPED_TRACE(variant["variant"]);
    nlohmann::json file = fixture_json();
    for (const auto& [name, value] : variant["patch"].items()) {
      if (name == "model") {
        file["model"].update(value);
      } else {
        file[name] = value;
      }
    }
    const auto tokenizer = load_json(file);
    ASSERT_NE(tokenizer, nullptr);
    for (const nlohmann::json& golden : variant["cases"]) {
      expect_golden(*tokenizer, golden);
      ++cases;
    }
  }
  EXPECT_GE(cases, 900U);
}

}  // namespace
}  // namespace phalanx::tokenizer
