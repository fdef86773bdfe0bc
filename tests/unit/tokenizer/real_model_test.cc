// SPDX-License-Identifier: Apache-2.0
// The tokenizers and a template of published models, which are not ours to check in:
// tools/test_real_tokenizer fetches them, makes their goldens and runs this.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "golden_checks.h"
#include "real_goldens.h"

namespace phalanx::tokenizer {
namespace {

std::filesystem::path folder() {
  const char* const path = std::getenv("PHALANX_TOKENIZERS");
  if (path == nullptr) {
    ADD_FAILURE() << "PHALANX_TOKENIZERS: expected a folder, found nothing";
    return {};
  }
  return path;
}

nlohmann::json read_json(const std::filesystem::path& path) {
  return nlohmann::json::parse(read_text(path));
}

class RealModel : public testing::TestWithParam<const char*> {};

TEST_P(RealModel, EncodesAndDecodesTheChosenTextsAsTheLibraries) {
  const auto tokenizer = load_tokenizer(folder() / GetParam());
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().to_string();
  const nlohmann::json goldens = read_json(data_folder() / "real" / "goldens.json");
  EXPECT_GE(RealGoldens(goldens, GetParam()).expect_equal(**tokenizer), 600U);
}

TEST_P(RealModel, EncodesAndDecodesRandomTextsAsTheLibraries) {
  const auto tokenizer = load_tokenizer(folder() / GetParam());
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().to_string();
  const nlohmann::json goldens =
      read_json(folder() / "goldens" / (std::string(GetParam()) + ".random.json"));
  EXPECT_GE(RealGoldens(goldens, GetParam()).expect_equal(**tokenizer), 100'000U);
}

INSTANTIATE_TEST_SUITE_P(Models,
                         RealModel,
                         testing::Values("qwen3", "llama3", "smollm2"),
                         [](const auto& model) { return std::string(model.param); });

TEST(RealGguf, EncodesAndDecodesAsTheLibraries) {
  const std::string bytes = read_text(folder() / "smollm2" / "model.gguf");
  const auto tokenizer = load_gguf(std::as_bytes(std::span(bytes)));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_FALSE(tokenizer->chat_template().empty());
  const nlohmann::json goldens = read_json(data_folder() / "real" / "goldens.json");
  EXPECT_GE(RealGoldens(goldens, "smollm2").expect_equal(*tokenizer), 600U);
  const nlohmann::json random = read_json(folder() / "goldens" / "smollm2.random.json");
  EXPECT_GE(RealGoldens(random, "smollm2").expect_equal(*tokenizer), 100'000U);
}

TEST(RealTemplate, RendersConversationsAsJinja) {
  EXPECT_GE(expect_template_goldens(folder() / "goldens" / "template_goldens.json"), 60U);
}

TEST(RealTemplate, TokenizesAConversationAsOneText) {
  const auto tokenizer = load_tokenizer(folder() / "qwen3");
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().to_string();
  const auto chat = compile_chat_template(**tokenizer);
  ASSERT_TRUE(chat.has_value()) << chat.error().to_string();
  const auto segments =
      chat->render({.messages_json = R"([{"role": "system", "content": "Be brief."},
                            {"role": "user", "content": "  What's 1+1?\n"},
                            {"role": "assistant", "content": "<think>\nhm\n</think>\n\n2"},
                            {"role": "user", "content": "Thanks\u0301!"}])"});
  ASSERT_TRUE(segments.has_value()) << segments.error().to_string();
  std::string whole;
  for (const TextSegment& segment : *segments) {
    whole += segment.text;
  }
  EXPECT_EQ(*(*tokenizer)->encode_segments(*segments),
            *(*tokenizer)->encode(whole, {.parse_special = true}));
}

}  // namespace
}  // namespace phalanx::tokenizer
