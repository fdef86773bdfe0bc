// SPDX-License-Identifier: Apache-2.0
// The templates of published models over many conversations, against what Python's Jinja made of
// them (tools/make_template_goldens).
#include <string>

#include <gtest/gtest.h>

#include "golden_checks.h"

namespace phalanx::tokenizer {
namespace {

std::filesystem::path folder() {
  return data_folder() / "chat_templates";
}

Result<std::string> rendered(const ChatTemplate& chat, const nlohmann::ordered_json& asked) {
  const auto text = [&](const char* name) {
    return asked.contains(name) ? asked[name].dump() : std::string();
  };
  const std::string messages = text("messages");
  const std::string tools = text("tools");
  const std::string variables = text("variables");
  const bool goes_on = asked.value("continue_final_message", false);
  PHALANX_TRY(const auto segments,
              chat.render({.messages_json = messages,
                           .tools_json = tools,
                           .variables_json = variables,
                           .add_generation_prompt = asked.value("add_generation_prompt", !goes_on),
                           .continue_final_message = goes_on,
                           .now = golden_now()}));
  std::string whole;
  for (const TextSegment& segment : segments) {
    whole += segment.text;
  }
  return whole;
}

void expect_outcome(const Result<std::string>& ours, const nlohmann::json& theirs) {
  if (theirs.contains("rendered")) {
    ASSERT_TRUE(ours.has_value()) << ours.error().to_string();
    EXPECT_EQ(*ours, theirs["rendered"].get<std::string>());
    return;
  }
  ASSERT_FALSE(ours.has_value()) << *ours << "\nJinja: " << theirs;
  EXPECT_EQ(ours.error().code(), Code::kInvalidArgument);
  if (theirs.contains("raised")) {
    EXPECT_EQ(ours.error().message(), theirs["raised"].get<std::string>());
  }
}

class ModelTemplate : public testing::TestWithParam<const char*> {};

TEST_P(ModelTemplate, RendersAsJinja) {
  const std::string name = GetParam();
  const auto compiled = ChatTemplate::compile(read_text(folder() / (name + ".jinja")),
                                              {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  ASSERT_TRUE(compiled.has_value()) << compiled.error().to_string();
  const auto goldens = nlohmann::json::parse(read_text(folder() / (name + "_goldens.json")));
  const auto conversations =
      nlohmann::ordered_json::parse(read_text(folder() / "conversations.json"));
  EXPECT_GE(conversations.size(), 60U);
  EXPECT_EQ(goldens.size(), conversations.size());
  for (const auto& asked : conversations) {
    SCOPED_TRACE(asked["name"].get<std::string>());
    expect_outcome(rendered(*compiled, asked), goldens.at(asked["name"].get<std::string>()));
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         ModelTemplate,
                         testing::Values("qwen3", "qwen2_5", "qwen3_5", "smollm2", "tools_first"),
                         [](const auto& test) { return std::string(test.param); });

// One construct a line, where Python's way is not the obvious one.
TEST(TemplateSnippets, RenderAsJinja) {
  const auto goldens = nlohmann::json::parse(read_text(folder() / "snippets_goldens.json"));
  EXPECT_GE(goldens.size(), 20U);
  for (const auto& [source, golden] : goldens.items()) {
    SCOPED_TRACE(source);
    const auto compiled = ChatTemplate::compile(source);
    ASSERT_TRUE(compiled.has_value()) << compiled.error().to_string();
    expect_outcome(rendered(*compiled, {{"messages", nlohmann::json::array()}}), golden);
  }
}

}  // namespace
}  // namespace phalanx::tokenizer
