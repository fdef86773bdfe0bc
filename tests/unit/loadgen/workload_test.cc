// SPDX-License-Identifier: Apache-2.0
#include "phalanx/loadgen/workload.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace phalanx::loadgen {
namespace {

using nlohmann::json;

TEST(RandomWorkload, DrawsLengthsFromTheRange) {
  const auto requests = random_workload(
      {.count = 2000, .input_len = 10, .output_len = 20, .range_ratio = 0.5, .seed = 1},
      Backend::kCompletions);
  std::set<std::size_t> inputs;
  std::set<std::uint32_t> outputs;
  for (const PlannedRequest& request : requests) {
    const auto& tokens = std::get<std::vector<TokenId>>(request.prompt);
    inputs.insert(tokens.size());
    outputs.insert(request.max_tokens);
    for (const TokenId token : tokens) {
      EXPECT_TRUE(token >= 0 && token < 256);
    }
  }
  EXPECT_EQ(*inputs.begin(), 5U);
  EXPECT_EQ(*inputs.rbegin(), 15U);
  EXPECT_EQ(inputs.size(), 11U);
  EXPECT_EQ(*outputs.begin(), 10U);
  EXPECT_EQ(*outputs.rbegin(), 30U);
}

// 100 · 1.1 is more than 110, and 100 · (1 - 0.9) less than 10.
TEST(RandomWorkload, KeepsToARangeThatRoundingWouldWiden) {
  for (const auto& [ratio, least, most] :
       {std::tuple{0.1, 90U, 110U}, std::tuple{0.9, 10U, 190U}, std::tuple{0.0, 100U, 100U}}) {
    std::set<std::uint32_t> outputs;
    for (const PlannedRequest& request : random_workload(
             {.count = 5000, .input_len = 1, .output_len = 100, .range_ratio = ratio, .seed = 1},
             Backend::kCompletions)) {
      outputs.insert(request.max_tokens);
    }
    EXPECT_EQ(*outputs.begin(), least) << ratio;
    EXPECT_EQ(*outputs.rbegin(), most) << ratio;
  }
}

TEST(RandomWorkload, IsTextForChatAndNeverEmpty) {
  const auto requests =
      random_workload({.count = 50, .input_len = 1, .output_len = 1, .range_ratio = 1.0, .seed = 1},
                      Backend::kChat);
  for (const PlannedRequest& request : requests) {
    EXPECT_FALSE(std::get<std::string>(request.prompt).empty());
    EXPECT_GE(request.max_tokens, 1U);
  }
}

TEST(CountWorkload, KnowsTheAnswer) {
  for (const PlannedRequest& request : count_workload(200, 9)) {
    int first = 0;
    int last = 0;
    ASSERT_EQ(
        std::sscanf(
            std::get<std::string>(request.prompt).c_str(), "count from %d to %d", &first, &last),
        2);
    EXPECT_GE(first, 0);
    EXPECT_LE(last, 999);
    std::string answer = std::to_string(first);
    for (int value = first + 1; value <= last; ++value) {
      answer += " " + std::to_string(value);
    }
    EXPECT_EQ(request.expected_text, answer);
    EXPECT_GT(request.max_tokens, answer.size());
  }
}

// The longest that the built-in model always has right.
TEST(CountWorkload, AsksForNoMoreThanTheBuiltInModelCan) {
  for (const PlannedRequest& request : count_workload(3000, 0)) {
    const std::string& answer = *request.expected_text;
    EXPECT_LT(std::count(answer.begin(), answer.end(), ' '), 40) << answer;
  }
}

TEST(CustomWorkload, ReadsLinesAndRepeatsThem) {
  const auto requests = parse_custom_workload(
      "{\"prompt\": \"a\", \"output_tokens\": 5}\n\n{\"prompt\": \"b\"}\r\n", 5, 77);
  ASSERT_TRUE(requests);
  std::string prompts;
  for (const PlannedRequest& request : *requests) {
    prompts += std::get<std::string>(request.prompt);
  }
  EXPECT_EQ(prompts, "ababa");
  EXPECT_EQ((*requests)[0].max_tokens, 5U);
  EXPECT_EQ((*requests)[1].max_tokens, 77U);
}

TEST(CustomWorkload, NamesTheBadLine) {
  const auto message = [](std::string_view lines) {
    const auto requests = parse_custom_workload(lines, 5, 1);
    return requests ? "accepted" : requests.error().message();
  };
  EXPECT_EQ(message("{\"prompt\":\"a\"}\n{\"text\":\"b\"}\n"),
            R"(line 2: expected {"prompt": "text", "output_tokens": N})");
  EXPECT_EQ(message("{\"prompt\":\"a\",\"output_tokens\":0}"),
            "line 1: output_tokens: expected an integer from 1 to 16777216");
  EXPECT_EQ(message("\n"), "the dataset holds no request");
  for (const std::string path : {"/nowhere/x.jsonl", "/tmp", "/dev/zero"}) {
    const auto requests = load_custom_workload(path, 1, 1);
    ASSERT_FALSE(requests);
    EXPECT_EQ(requests.error().code(), Code::kNotFound);
    EXPECT_EQ(requests.error().message().find("cannot read the dataset " + path + ": "), 0U);
  }
}

TEST(RequestBody, AsksForAStreamWithUsage) {
  PlannedRequest request;
  request.prompt = "hi";
  request.max_tokens = 9;
  RequestFields fields;
  fields.model = "m";
  fields.temperature = 0.0;
  fields.ignore_eos = true;
  fields.extra_body_json = R"({"seed": 3})";
  const auto chat = request_body(request, fields, Backend::kChat);
  ASSERT_TRUE(chat);
  EXPECT_EQ(json::parse(*chat), json::parse(R"({
    "model": "m", "messages": [{"role": "user", "content": "hi"}], "max_completion_tokens": 9,
    "stream": true, "stream_options": {"include_usage": true}, "ignore_eos": true,
    "temperature": 0.0, "seed": 3})"));
  request.prompt = std::vector<TokenId>{1, 2};
  const auto completion = request_body(request, {}, Backend::kCompletions);
  ASSERT_TRUE(completion);
  EXPECT_EQ(json::parse(*completion)["prompt"], json::parse("[1,2]"));
  EXPECT_EQ(json::parse(*completion)["max_tokens"], 9);
  EXPECT_FALSE(request_body(request, fields, Backend::kChat));
  fields.extra_body_json = "[1]";
  EXPECT_FALSE(request_body(request, fields, Backend::kCompletions));
  for (const char* name : {"max_tokens", "max_completion_tokens", "prompt", "messages"}) {
    fields.extra_body_json = "{\"" + std::string(name) + "\": 1000}";
    EXPECT_FALSE(request_body(request, fields, Backend::kCompletions)) << name;
  }
  fields.extra_body_json = R"({"seed": 3, "echo": true})";
  EXPECT_EQ(request_body(request, fields, Backend::kCompletions).error().message(),
            "--extra-body: \"echo\" cannot be set: streams are audited, which have one choice and "
            "what the other options ask for");
}

}  // namespace
}  // namespace phalanx::loadgen
