// SPDX-License-Identifier: Apache-2.0
#include "phalanx/openai/stream_event.h"

#include <gtest/gtest.h>

#include "phalanx/openai/api_error.h"

namespace phalanx::openai {
namespace {

ResponseHead head() {
  return {.id = "x", .created = 1, .model = "m"};
}

TEST(StreamEvent, ReadsWhatTheBuildersWrite) {
  const StreamChunks chat(Api::kChat, head());
  const auto role = parse_stream_event(chat.role(1));
  ASSERT_TRUE(role);
  ASSERT_EQ(role->choices.size(), 1U);
  EXPECT_TRUE(role->choices[0].opens);
  EXPECT_EQ(role->choices[0].index, 1U);

  ChoiceText choice;
  choice.text = "a\n";
  choice.finish_reason = "stop";
  for (const std::string& text :
       {chat.text(choice), StreamChunks(Api::kText, head()).text(choice)}) {
    const auto chunk = parse_stream_event(text);
    ASSERT_TRUE(chunk);
    ASSERT_EQ(chunk->choices.size(), 1U);
    EXPECT_FALSE(chunk->choices[0].opens);
    EXPECT_EQ(chunk->choices[0].text, "a\n");
    EXPECT_EQ(chunk->choices[0].finish_reason, "stop");
    EXPECT_FALSE(chunk->usage);
  }

  const Usage usage{.prompt_tokens = 3, .completion_tokens = 4, .cached_tokens = std::nullopt};
  const auto last = parse_stream_event(chat.usage(usage));
  ASSERT_TRUE(last);
  EXPECT_TRUE(last->choices.empty());
  ASSERT_TRUE(last->usage);
  EXPECT_EQ(last->usage->completion_tokens, 4U);

  const auto error = parse_stream_event(error_body(from_error(unavailable("later"))));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->error, "later");
}

TEST(StreamEvent, RefusesWhatIsNone) {
  for (const char* text : {"",
                           "[1]",
                           "{}",
                           R"({"choices":5})",
                           R"({"choices":[5]})",
                           R"({"choices":[{"text":5}]})",
                           R"({"choices":[{"index":4294967296,"text":"a"}]})",
                           R"({"choices":[{"index":-1,"text":"a"}]})",
                           R"({"choices":[{"index":"0","text":"a"}]})",
                           R"({"choices":[],"usage":{"prompt_tokens":-1}})"}) {
    const auto event = parse_stream_event(text);
    ASSERT_FALSE(event) << text;
    EXPECT_EQ(event.error().code(), Code::kDataLoss);
  }
}

TEST(ErrorMessage, IsTakenFromTheBodyOrIsTheBody) {
  EXPECT_EQ(error_message_of(R"({"error":{"message":"full"}})"), "full");
  EXPECT_EQ(error_message_of(R"({"error":"Unauthorized"})"), "Unauthorized");
  EXPECT_EQ(error_message_of("<html>"), "<html>");
}

TEST(ModelListReader, ReadsWhatModelListWrites) {
  const auto models = parse_model_list(model_list(std::vector{ModelCard{"m", 5, "/m", 2048}}));
  ASSERT_TRUE(models);
  EXPECT_EQ(*models, (std::vector<std::string>{"m"}));
  EXPECT_FALSE(parse_model_list("[]"));
  EXPECT_FALSE(parse_model_list(R"({"data":[{}]})"));
  EXPECT_FALSE(parse_model_list(R"({"data":[7]})"));
  EXPECT_FALSE(parse_model_list("<html>"));
}

}  // namespace
}  // namespace phalanx::openai
