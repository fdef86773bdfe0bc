// SPDX-License-Identifier: Apache-2.0
#include <ctime>
#include <string>

#include <gtest/gtest.h>

#include "phalanx/tokenizer/chat_template.h"

#include "test_data.h"

namespace phalanx::tokenizer {
namespace {

using nlohmann::json;

// The moment that the goldens call now, in whatever zone the test runs.
std::chrono::system_clock::time_point golden_now() {
  std::tm local{};
  local.tm_year = 124;
  local.tm_mon = 1;
  local.tm_mday = 29;
  local.tm_hour = 13;
  local.tm_min = 5;
  local.tm_sec = 9;
  local.tm_isdst = -1;
  return std::chrono::system_clock::from_time_t(std::mktime(&local));
}

// The rendering as one text; nothing if the template does not compile or render.
std::optional<std::string> render(const json& file, const json& golden) {
  const auto text = [&](const char* table, const char* key) {
    return file[table][golden[key].get<std::size_t>()].get<std::string>();
  };
  const auto compiled = ChatTemplate::compile(text("templates", "template"),
                                              {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  if (!compiled) {
    return std::nullopt;
  }
  const std::string messages = text("messages", "messages");
  const std::string tools = text("tools", "tools");
  const std::string variables = text("variables", "variables");
  const auto segments = compiled->render({.messages_json = messages,
                                          .tools_json = tools,
                                          .variables_json = variables,
                                          .add_generation_prompt = golden["add_generation_prompt"],
                                          .now = golden_now()});
  if (!segments) {
    return std::nullopt;
  }
  std::string whole;
  for (const TextSegment& segment : *segments) {
    whole += segment.text;
  }
  return whole;
}

// What Jinja rendered in Hugging Face's configuration (tools/make_tokenizer_goldens).
TEST(ChatTemplateGoldens, EqualJinja) {
  const json file = json::parse(read_text(data_folder() / "template_goldens.json"));
  ASSERT_GE(file["cases"].size(), 300U);
  for (const json& golden : file["cases"]) {
    const std::string source = file["templates"][golden["template"].get<std::size_t>()];
    const std::optional<std::string> rendered = render(file, golden);
    if (golden.contains("error")) {
      EXPECT_EQ(rendered, std::nullopt) << source << "\nJinja: " << golden["error"];
    } else {
      EXPECT_EQ(rendered, std::optional(golden["rendered"].get<std::string>())) << source;
    }
  }
}

}  // namespace
}  // namespace phalanx::tokenizer
