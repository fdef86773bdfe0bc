// SPDX-License-Identifier: Apache-2.0
#include "phalanx/openai/responses.h"

#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "phalanx/openai/api_error.h"

namespace phalanx::openai {
namespace {

using nlohmann::json;

ResponseHead head() {
  return {.id = "chatcmpl-1", .created = 1700000000, .model = "tiny"};
}

StreamChunks chat() {
  return {Api::kChat, head()};
}

StreamChunks completion() {
  return {Api::kText, head()};
}

TEST(ChatCompletion, HasTheShapeOfTheApi) {
  ChoiceText choice;
  choice.text = "3 4 \"5\"\n";
  choice.finish_reason = "stop";
  choice.stop_reason = TokenId{7};
  const std::string text =
      chat_completion(head(),
                      std::vector{choice},
                      {.prompt_tokens = 4, .completion_tokens = 6, .cached_tokens = 2});
  EXPECT_EQ(json::parse(text), json::parse(R"({
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "tiny",
    "choices": [{"index": 0,
                 "message": {"role": "assistant", "content": "3 4 \"5\"\n", "refusal": null},
                 "logprobs": null, "finish_reason": "stop", "stop_reason": 7}],
    "usage": {"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 10,
              "prompt_tokens_details": {"cached_tokens": 2}},
    "system_fingerprint": null})"));
}

TEST(ChatChunk, ComesInTheFormsOfAStream) {
  EXPECT_EQ(json::parse(chat().role(2)), json::parse(R"({
    "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "tiny",
    "choices": [{"index": 2, "delta": {"role": "assistant", "content": ""}, "logprobs": null,
                 "finish_reason": null}]})"));
  ChoiceText choice;
  choice.text = "a";
  json chunk = json::parse(chat().text(choice));
  EXPECT_EQ(chunk["choices"],
            json::parse(R"([{"index": 0, "delta": {"content": "a"}, "logprobs": null,
                             "finish_reason": null}])"));
  EXPECT_FALSE(chunk.contains("usage"));
  choice.finish_reason = "length";
  const Usage usage{.prompt_tokens = 1, .completion_tokens = 2, .cached_tokens = std::nullopt};
  chunk = json::parse(chat().text(choice, &usage));
  EXPECT_EQ(chunk["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(chunk["choices"][0]["stop_reason"], nullptr);
  EXPECT_EQ(chunk["usage"]["total_tokens"], 3);
  const json last = json::parse(chat().usage(usage));
  EXPECT_EQ(last["choices"], json::array());
  EXPECT_EQ(last["usage"]["completion_tokens"], 2);
}

TEST(ChatLogprobs, CarryExactBytesAndReadableText) {
  const std::vector<TokenLogprobs> tokens = {
      {"\xE2\x82", -0.5F, {{"\xE2\x82", -0.5F}, {"a\"", -std::numeric_limits<float>::infinity()}}}};
  ChoiceText choice;
  choice.has_logprobs = true;
  choice.logprobs = tokens;
  const json chunk = json::parse(chat().text(choice));
  EXPECT_EQ(chunk["choices"][0]["logprobs"], json::parse(R"({"content": [
    {"token": "\ufffd\ufffd", "logprob": -0.5, "bytes": [226, 130], "top_logprobs": [
      {"token": "\ufffd\ufffd", "logprob": -0.5, "bytes": [226, 130]},
      {"token": "a\"", "logprob": -9999.0, "bytes": [97, 34]}]}], "refusal": null})"));
}

TEST(TextCompletion, HasTheShapeOfTheApi) {
  const std::vector<TokenLogprobs> tokens = {{"\xC3\xA4", -0.25F, {{"b", -0.125F}}, 10},
                                             {"c", -1.0F, {{"c", -1.0F}, {"d", -2.0F}}, 11}};
  ChoiceText choice;
  choice.index = 1;
  choice.text =
      "\xC3\xA4"
      "c";
  choice.finish_reason = "stop";
  choice.stop_reason = std::string("END");
  choice.has_logprobs = true;
  choice.logprobs = tokens;
  const json answer = json::parse(
      text_completion(head(),
                      std::vector{choice},
                      {.prompt_tokens = 1, .completion_tokens = 2, .cached_tokens = {}}));
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["choices"], json::parse(R"([{"index": 1, "text": "äc", "logprobs": {
    "text_offset": [10, 11], "token_logprobs": [-0.25, -1.0], "tokens": ["ä", "c"],
    "top_logprobs": [{"b": -0.125, "ä": -0.25}, {"c": -1.0, "d": -2.0}]},
    "finish_reason": "stop", "stop_reason": "END"}])"));
  EXPECT_FALSE(answer["usage"].contains("prompt_tokens_details"));
  EXPECT_EQ(json::parse(completion().usage({}))["choices"], json::array());
  EXPECT_EQ(json::parse(completion().text(choice))["object"], "text_completion");
}

TEST(TextLogprobs, NeverRepeatAKey) {
  // Two different partial characters read the same.
  const std::vector<TokenLogprobs> tokens = {{"\xE2", -1.0F, {{"\xE3", -0.5F}, {"\xE2", -1.0F}}}};
  ChoiceText choice;
  choice.has_logprobs = true;
  choice.logprobs = tokens;
  const std::string text = completion().text(choice);
  EXPECT_NE(text.find(R"("top_logprobs":[{")"
                      "\xEF\xBF\xBD"
                      R"(":-0.5}])"),
            std::string::npos)
      << text;
}

TEST(Builders, WriteValidUtf8WhateverGoesIn) {
  for (int first = 0; first < 256; ++first) {
    for (const int second : {0, 0x20, 0x7F, 0x80, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF}) {
      std::string bytes = {static_cast<char>(first), static_cast<char>(second)};
      for (std::size_t tail = 0; tail <= 2; ++tail, bytes.push_back('\x80')) {
        // nlohmann's parser refuses invalid UTF-8.
        const json parsed = json::parse(detokenize_response(bytes), nullptr, false);
        ASSERT_FALSE(parsed.is_discarded()) << first << " " << second << " " << tail;
      }
    }
  }
  EXPECT_EQ(json::parse(detokenize_response("\xF0\x9F\x8C\x8D"))["prompt"], "\xF0\x9F\x8C\x8D");
}

TEST(ModelList, NamesTheModels) {
  EXPECT_EQ(json::parse(model_list(std::vector{ModelCard{"m", 5, "/models/m", 2048}})),
            json::parse(R"({"object": "list", "data": [{"id": "m", "object": "model", "created": 5,
              "owned_by": "phalanx", "root": "/models/m", "parent": null,
              "max_model_len": 2048}]})"));
}

TEST(TokenizeResponse, HasTheShapeOfTheApi) {
  const std::vector<TokenId> tokens = {3, 1};
  EXPECT_EQ(
      json::parse(tokenize_response(tokens, 64)),
      json::parse(R"({"count": 2, "max_model_len": 64, "tokens": [3, 1], "token_strs": null})"));
  const std::vector<std::string> strings = {"a", "\xFF"};
  EXPECT_EQ(json::parse(tokenize_response(tokens, 64, &strings))["token_strs"],
            json::parse(R"(["a", "\ufffd"])"));
}

TEST(Ids, AreLongAndPrefixed) {
  EXPECT_EQ(chat_completion_id(0x1, 0xABCDEF), "chatcmpl-00000000000000010000000000abcdef");
  EXPECT_EQ(completion_id(0, 0), "cmpl-00000000000000000000000000000000");
}

TEST(ErrorBody, AlwaysHasItsFourMembers) {
  EXPECT_EQ(error_body(invalid_field("n", "n: bad \"value\"")),
            R"({"error":{"message":"n: bad \"value\"","type":"invalid_request_error","param":"n",)"
            R"("code":null}})");
  const json busy = json::parse(error_body(from_error(unavailable("later"))));
  EXPECT_EQ(busy, json::parse(R"({"error": {"message": "later", "type": "server_error",
                                            "param": null, "code": "unavailable"}})"));
  EXPECT_EQ(from_error(unavailable("x")).http_status, 503);
  EXPECT_EQ(model_not_found("a", {"b"}).http_status, 404);
  EXPECT_EQ(from_http_status(429, "x").type, "rate_limit_error");
}

TEST(ErrorMessages, NameBothNumbers) {
  EXPECT_EQ(max_tokens_too_large("max_tokens", 100000, 48, 2048).message,
            "max_tokens: expected at most 2000, came 100000. This model's maximum context length "
            "is 2048 tokens, and the prompt has 48 (context_length_exceeded)");
  const ApiError error = context_too_long("messages", 3000, 2048);
  EXPECT_EQ(error.param, "messages");
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_NE(error.message.find("3000"), std::string::npos);
  EXPECT_NE(error.message.find("This model's maximum context length is 2048 tokens"),
            std::string::npos)
      << "LiteLLM knows it by these words";
  EXPECT_NE(error.message.find("context_length_exceeded"), std::string::npos)
      << "LangChain knows it by this one";
}

}  // namespace
}  // namespace phalanx::openai
