// SPDX-License-Identifier: Apache-2.0
// What the libraries that define the behaviour computed (tools/make_tokenizer_goldens).
#include <gtest/gtest.h>

#include "golden_checks.h"

namespace phalanx::tokenizer {
namespace {

// The fixture with every kind of pre-tokenizer.
TEST(TokenizerGoldens, EqualTheTokenizersLibrary) {
  EXPECT_GE(expect_tokenizer_goldens(fixture_json(), data_folder() / "tokenizer_goldens.json"),
            900U);
}

// Characters with byte fallback, and what stands for a space in its variants.
TEST(TokenizerGoldens, EqualTheTokenizersLibraryInTheMannerOfSentencePiece) {
  const auto file =
      nlohmann::json::parse(read_text(data_folder() / "sentencepiece/tokenizer.json"));
  EXPECT_GE(expect_tokenizer_goldens(file, data_folder() / "sentencepiece_goldens.json"), 600U);
}

// Jinja in Hugging Face's configuration.
TEST(ChatTemplateGoldens, EqualJinja) {
  EXPECT_GE(expect_template_goldens(data_folder() / "template_goldens.json"), 300U);
}

}  // namespace
}  // namespace phalanx::tokenizer
