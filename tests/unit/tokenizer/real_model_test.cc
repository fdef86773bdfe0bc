// SPDX-License-Identifier: Apache-2.0
// The tokenizer and template of a published model, which are not ours to check in:
// tools/test_real_tokenizer fetches them, makes their goldens and runs this.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "golden_checks.h"

namespace phalanx::tokenizer {
namespace {

std::filesystem::path model_folder() {
  const char* const folder = std::getenv("PHALANX_QWEN3_TOKENIZER");
  if (folder == nullptr) {
    ADD_FAILURE() << "PHALANX_QWEN3_TOKENIZER: expected a folder, found nothing";
    return {};
  }
  return folder;
}

TEST(RealModel, EncodesAndDecodesAsTheTokenizersLibrary) {
  const auto folder = model_folder();
  ASSERT_FALSE(folder.empty());
  EXPECT_GE(expect_tokenizer_goldens(nlohmann::json::parse(read_text(folder / "tokenizer.json")),
                                     folder / "string_goldens.json"),
            5000U);
}

TEST(RealModel, RendersConversationsAsJinja) {
  const auto folder = model_folder();
  ASSERT_FALSE(folder.empty());
  EXPECT_GE(expect_template_goldens(folder / "template_goldens.json"), 60U);
}

TEST(RealModel, TokenizesAConversationAsOneText) {
  const auto folder = model_folder();
  ASSERT_FALSE(folder.empty());
  const auto tokenizer = load_tokenizer(folder);
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
