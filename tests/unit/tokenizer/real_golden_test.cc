// SPDX-License-Identifier: Apache-2.0
// The tokenizers of published models, cut down to what the chosen texts use, give the ids that
// other implementations computed with the whole ones.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "real_goldens.h"
#include "source_dir.h"

namespace phalanx::tokenizer {
namespace {

constexpr std::size_t kTexts = 600;

nlohmann::json read_json(const std::string& name) {
  return nlohmann::json::parse(read_text(data_folder() / "real" / (name + ".json")));
}

const nlohmann::json& goldens() {
  static const nlohmann::json kGoldens = read_json("goldens");
  return kGoldens;
}

struct Model {
  const char* name;
  const char* pre;  // what GGUF calls its pre-tokenizer
};

class RealTokenizer : public testing::TestWithParam<Model> {};

TEST_P(RealTokenizer, GivesTheIdsOfTheLibraries) {
  const auto tokenizer = load_json(read_json(GetParam().name));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_GE(RealGoldens(goldens(), GetParam().name).expect_equal(*tokenizer), kTexts);
}

TEST_P(RealTokenizer, GivesTheSameIdsFromAGgufFile) {
  const auto tokenizer = load_gguf(gguf_of(read_json(GetParam().name), GetParam().pre));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_GE(RealGoldens(goldens(), GetParam().name).expect_equal(*tokenizer), kTexts);
}

INSTANTIATE_TEST_SUITE_P(Families,
                         RealTokenizer,
                         testing::Values(Model{"qwen3", "qwen2"},
                                         Model{"llama3", "llama-bpe"},
                                         Model{"smollm2", "smollm"}),
                         [](const auto& model) { return std::string(model.param.name); });

TEST(BuiltInTokenizer, GivesTheIdsOfTheLibraries) {
  const auto tokenizer = load_tokenizer(std::filesystem::path(PHALANX_SOURCE_DIR) / "deploy" /
                                        "models" / "phalanx-tiny");
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().to_string();
  EXPECT_GE(RealGoldens(goldens(), "phalanx-tiny").expect_equal(**tokenizer), kTexts);
}

}  // namespace
}  // namespace phalanx::tokenizer
