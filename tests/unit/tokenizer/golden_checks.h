// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/tokenizer/chat_template.h"
#include "phalanx/tokenizer/incremental_decoder.h"

#include "test_data.h"

namespace phalanx::tokenizer {

inline std::vector<TokenId> ids_of(const nlohmann::json& golden,
                                   const char* name,
                                   const std::vector<TokenId>& fallback) {
  return golden.contains(name) ? golden[name].get<std::vector<TokenId>>() : fallback;
}

inline void expect_golden(const Tokenizer& tokenizer, const nlohmann::json& golden) {
  const auto text = golden["text"].get<std::string>();
  const auto ids = golden["ids"].get<std::vector<TokenId>>();
  const auto parsed = tokenizer.encode(text, {.parse_special = true});
  const auto plain = tokenizer.encode(text);
  ASSERT_TRUE(parsed && plain) << golden;
  EXPECT_EQ(*parsed, ids) << golden;
  EXPECT_EQ(*plain, ids_of(golden, "plain_ids", ids)) << golden;
  const auto affixed = tokenizer.encode(text, {.parse_special = true, .add_special_tokens = true});
  EXPECT_EQ(*affixed, ids_of(golden, "affixed_ids", ids)) << golden;
  EXPECT_EQ(tokenizer.decode(ids, {.skip_special = false}), golden.value("decoded", text));
  EXPECT_EQ(tokenizer.decode(ids), golden.value("skipped", text));
  IncrementalDecoder decoder(tokenizer);
  std::string streamed;
  for (const TokenId id : ids) {
    streamed += decoder.push(id);
  }
  EXPECT_EQ(streamed + decoder.finish(), golden.value("skipped", text));
}

// Checks the goldens of `path` against the tokenizer of `file` and returns how many there are.
inline std::size_t expect_tokenizer_goldens(const nlohmann::json& file,
                                            const std::filesystem::path& path) {
  std::size_t cases = 0;
  for (const nlohmann::json& variant : nlohmann::json::parse(read_text(path))) {
    SCOPED_TRACE(variant["variant"]);
    nlohmann::json changed = file;
    for (const auto& [name, value] : variant["patch"].items()) {
      if (name == "model") {
        changed["model"].update(value);
      } else {
        changed[name] = value;
      }
    }
    const auto tokenizer = load_json(changed);
    for (const nlohmann::json& golden : variant["cases"]) {
      expect_golden(*tokenizer, golden);
      ++cases;
    }
  }
  return cases;
}

// The moment that the goldens call now, in whatever zone the test runs.
inline std::chrono::system_clock::time_point golden_now() {
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
inline std::optional<std::string> render_golden(const nlohmann::json& file,
                                                const nlohmann::json& golden) {
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

// Checks the renderings of `path` and returns how many there are.
inline std::size_t expect_template_goldens(const std::filesystem::path& path) {
  const nlohmann::json file = nlohmann::json::parse(read_text(path));
  for (const nlohmann::json& golden : file["cases"]) {
    const std::string source = file["templates"][golden["template"].get<std::size_t>()];
    const std::optional<std::string> rendered = render_golden(file, golden);
    if (golden.contains("error")) {
      EXPECT_EQ(rendered, std::nullopt) << source << "\nJinja: " << golden["error"];
    } else {
      EXPECT_EQ(rendered, std::optional(golden["rendered"].get<std::string>())) << source;
    }
  }
  return file["cases"].size();
}

}  // namespace phalanx::tokenizer
