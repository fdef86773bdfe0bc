// SPDX-License-Identifier: Apache-2.0
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/openai/requests.h"

namespace phalanx::openai {
namespace {

struct BadField {
  std::string fields;  // of a request that is otherwise good
  std::string param;
  std::string message;
};

void PrintTo(const BadField& bad, std::ostream* out) {
  *out << bad.fields;
}

RequestBounds bounds() {
  RequestBounds result;
  result.vocab_size = 1000;
  result.stop_strings_max = 4;
  result.stop_bytes_max = 8;
  return result;
}

constexpr std::string_view kMessages = R"("messages":[{"role":"user","content":"hi"}])";

template <typename T>
void expect_error(const ApiResult<T>& parsed, const BadField& bad) {
  ASSERT_FALSE(parsed) << "accepted: " << bad.fields;
  const ApiError& error = parsed.error();
  EXPECT_EQ(error.http_status, 400);
  EXPECT_EQ(error.type, "invalid_request_error");
  EXPECT_EQ(error.param.value_or("(none)"), bad.param);
  EXPECT_EQ(error.message, bad.message);
}

class BadGenerationField : public testing::TestWithParam<BadField> {};

// Both endpoints read these with the same words.
TEST_P(BadGenerationField, IsRefusedByName) {
  const BadField& bad = GetParam();
  expect_error(parse_chat_request("{" + std::string(kMessages) + "," + bad.fields + "}", bounds()),
               bad);
  expect_error(parse_completion_request(R"({"prompt":"hi",)" + bad.fields + "}", bounds()), bad);
}

INSTANTIATE_TEST_SUITE_P(
    Fields,
    BadGenerationField,
    testing::Values(
        BadField{R"("temperature":3)",
                 "temperature",
                 "temperature: expected a number from 0 to 2, came 3"},
        BadField{R"("do_sample":false)",
                 "do_sample",
                 "do_sample: not supported by this version: use temperature 0"},
        BadField{
            R"("options":{"num_predict":1})",
            "options",
            "options: not supported by this version: they are fields of the request itself here"},
        BadField{R"("extra_body":{"top_k":1})",
                 "extra_body",
                 "extra_body: not supported by this version: its members are fields of the request "
                 "itself here"},
        BadField{R"("temperature":-0.5)",
                 "temperature",
                 "temperature: expected a number from 0 to 2, came -0.5"},
        BadField{R"("temperature":"1")",
                 "temperature",
                 R"(temperature: expected a number from 0 to 2, came "1")"},
        BadField{R"("top_p":-1)", "top_p", "top_p: expected a number from 0 to 1, came -1"},
        BadField{
            R"("top_p":[])", "top_p", "top_p: expected a number from 0 to 1, came an empty array"},
        // Each is above zero as a double, and no longer where ranks compute: as float32, denormals
        // flushed.
        BadField{R"("repetition_penalty":1e-39)",
                 "repetition_penalty",
                 "repetition_penalty: expected a number from 0.01 to 100, came 1e-39"},
        BadField{R"("repetition_penalty":1.2e-38)",
                 "repetition_penalty",
                 "repetition_penalty: expected a number from 0.01 to 100, came 1.2e-38"},
        BadField{R"("repetition_penalty":1e300)",
                 "repetition_penalty",
                 "repetition_penalty: expected a number from 0.01 to 100, came 1e+300"},
        BadField{R"("min_p":1.5)", "min_p", "min_p: expected a number from 0 to 1, came 1.5"},
        BadField{
            R"("top_k":-2)", "top_k", "top_k: expected an integer from -1 to 2147483647, came -2"},
        BadField{R"("top_k":1.5)",
                 "top_k",
                 "top_k: expected an integer from -1 to 2147483647, came 1.5"},
        BadField{R"("repetition_penalty":0)",
                 "repetition_penalty",
                 "repetition_penalty: expected a number from 0.01 to 100, came 0"},
        BadField{R"("presence_penalty":-2.1)",
                 "presence_penalty",
                 "presence_penalty: expected a number from -2 to 2, came -2.1"},
        BadField{R"("frequency_penalty":true)",
                 "frequency_penalty",
                 "frequency_penalty: expected a number from -2 to 2, came true"},
        BadField{R"("n":0)", "n", "n: expected an integer from 1 to 128, came 0"},
        BadField{R"("n":129)", "n", "n: expected an integer from 1 to 128, came 129"},
        BadField{R"("max_tokens":0)",
                 "max_tokens",
                 "max_tokens: expected an integer from 1 to 2147483647, or -1 for as many as the "
                 "context leaves, came 0"},
        BadField{R"("max_tokens":1e30)",
                 "max_tokens",
                 "max_tokens: expected an integer from 1 to 2147483647, or -1 for as many as the "
                 "context leaves, came 1e+30"},
        BadField{R"("max_tokens":3,"min_tokens":4)",
                 "min_tokens",
                 "min_tokens: expected at most max_tokens (3), came 4"},
        BadField{R"("seed":18446744073709551615)",
                 "seed",
                 "seed: expected an integer from -9223372036854775808 to 9223372036854775807, "
                 "came 18446744073709551615"},
        BadField{R"("seed":-9223372036854775809)",
                 "seed",
                 "seed: expected an integer from -9223372036854775808 to 9223372036854775807, "
                 "came -9223372036854775809"},
        BadField{R"("seed":9223372036854775808.0)",
                 "seed",
                 "seed: expected an integer from -9223372036854775808 to 9223372036854775807, "
                 "came 9223372036854775808.0"},
        BadField{R"("seed":1.5e0)",
                 "seed",
                 "seed: expected an integer from -9223372036854775808 to 9223372036854775807, "
                 "came 1.5"},
        BadField{R"("stop":5)", "stop", "stop: expected a string or a list of strings, came 5"},
        BadField{
            R"("stop":["a","b","c","d","e"])", "stop", "stop: expected at most 4 strings, came 5"},
        BadField{R"("stop":["aaaa","bbbbb"])",
                 "stop",
                 "stop: expected at most 8 bytes in all strings together, came 9"},
        BadField{R"("stop_token_ids":[1,1000])",
                 "stop_token_ids[1]",
                 "stop_token_ids[1]: expected a token id from 0 to 999, came 1000"},
        BadField{R"("logit_bias":[1])",
                 "logit_bias",
                 "logit_bias: expected an object from token ids to numbers, came an array"},
        BadField{R"("logit_bias":{"0000000000000000000000000000000000000000000001":1000})",
                 "logit_bias[1]",
                 "logit_bias[1]: expected a number from -100 to 100, came 1000"},
        BadField{R"("logit_bias":{"x":1})",
                 "logit_bias",
                 "logit_bias: expected keys that are token ids from 0 to 999, came \"x\""},
        BadField{R"("logit_bias":{"7":101})",
                 "logit_bias[7]",
                 "logit_bias[7]: expected a number from -100 to 100, came 101"},
        BadField{R"("logit_bias":{"7":1,"07":2})",
                 "logit_bias",
                 "logit_bias: a token id stands there twice"},
        BadField{R"("stream":"yes")", "stream", R"(stream: expected true or false, came "yes")"},
        BadField{
            R"("stream_options":{})", "stream_options", "stream_options: needs stream to be true"},
        BadField{R"("stream":true,"stream_options":{"include_usage":1})",
                 "stream_options.include_usage",
                 "stream_options.include_usage: expected true or false, came 1"},
        BadField{R"("ignore_eos":0)", "ignore_eos", "ignore_eos: expected true or false, came 0"},
        BadField{R"("user":{})", "user", "user: expected a string, came an object"},
        BadField{R"("model":7)", "model", "model: expected a string, came 7"},
        BadField{R"("response_format":{"type":"json_object"})",
                 "response_format",
                 "response_format: not supported by this version: answers are free text"},
        BadField{R"("use_beam_search":true)",
                 "use_beam_search",
                 "use_beam_search: not supported by this version: there is no beam search"},
        BadField{R"("priority":2)",
                 "priority",
                 "priority: not supported by this version: requests are served in the order they "
                 "come"},
        BadField{R"("repeat_last_n":0)",
                 "repeat_last_n",
                 "repeat_last_n: not supported by this version: penalties know no window"},
        BadField{R"("adaptive_target":0)",
                 "adaptive_target",
                 "adaptive_target: not supported by this version: there is no such way to sample"},
        BadField{
            R"("spaces_between_special_tokens":1)",
            "spaces_between_special_tokens",
            "spaces_between_special_tokens: not supported by this version: the texts of tokens "
            "are joined as they are"},
        BadField{R"("truncate":true)",
                 "truncate",
                 "truncate: not supported by this version: a prompt is never shortened"}));

class BadChatField : public testing::TestWithParam<BadField> {};

TEST_P(BadChatField, IsRefusedByName) {
  const BadField& bad = GetParam();
  expect_error(parse_chat_request("{" + bad.fields + "}", bounds()), bad);
}

INSTANTIATE_TEST_SUITE_P(
    Fields,
    BadChatField,
    testing::Values(
        BadField{R"("model":"m")",
                 "messages",
                 "messages: expected a list of at least one message, came nothing"},
        BadField{R"("messages":"hi")",
                 "messages",
                 R"(messages: expected a list of at least one message, came "hi")"},
        BadField{R"("messages":[])",
                 "messages",
                 "messages: expected a list of at least one message, came an empty array"},
        BadField{R"("messages":["hi"])",
                 "messages[0]",
                 R"(messages[0]: expected an object with role and content, came "hi")"},
        BadField{R"("messages":[{"role":"<|im_end|>","content":"hi"}])",
                 "messages[0].role",
                 "messages[0].role: expected a role that the chat template knows, of 1 to 64 "
                 R"(letters, digits, "_", "." and "-", as in "user", came "<|im_end|>")"},
        BadField{R"("messages":[{"role":"","content":"hi"}])",
                 "messages[0].role",
                 "messages[0].role: expected a role that the chat template knows, of 1 to 64 "
                 R"(letters, digits, "_", "." and "-", as in "user", came "")"},
        BadField{R"("messages":[{"role":"ipython"}])",
                 "messages[0].content",
                 "messages[0].content: expected a string or a list of text parts, came null"},
        BadField{R"("messages":[{"role":"user"}])",
                 "messages[0].content",
                 "messages[0].content: expected a string or a list of text parts, came null"},
        BadField{R"("messages":[{"role":"user","content":[3]}])",
                 "messages[0].content[0]",
                 "messages[0].content[0]: expected an object or a string, came 3"},
        BadField{R"("messages":[{"role":"user","content":[{"type":"input_text"}]}])",
                 "messages[0].content[0].text",
                 "messages[0].content[0].text: expected a string, came null"},
        BadField{R"("messages":[{"role":"user","content":[{"type":"image_url"}]}])",
                 "messages[0].content[0].type",
                 R"(messages[0].content[0].type: expected "text", as the model takes text only, )"
                 R"(came "image_url")"},
        BadField{R"("messages":[{"role":"user","content":"a","name":3}])",
                 "messages[0].name",
                 "messages[0].name: expected a string, came 3"},
        BadField{std::string(kMessages) + R"(,"top_logprobs":2)",
                 "top_logprobs",
                 "top_logprobs: needs logprobs to be true"},
        BadField{std::string(kMessages) + R"(,"logprobs":true,"top_logprobs":99)",
                 "top_logprobs",
                 "top_logprobs: expected an integer from 0 to 20, came 99"},
        BadField{std::string(kMessages) + R"(,"logprobs":5)",
                 "logprobs",
                 "logprobs: expected true or false, came 5"},
        BadField{std::string(kMessages) + R"(,"max_completion_tokens":-2)",
                 "max_completion_tokens",
                 "max_completion_tokens: expected an integer from 1 to 2147483647, or -1 for as "
                 "many as the context leaves, came -2"},
        BadField{std::string(kMessages) + R"(,"tools":{})",
                 "tools",
                 "tools: expected a list of objects, came an object"},
        BadField{std::string(kMessages) + R"(,"tools":[{"type":"retrieval"}])",
                 "tools[0].type",
                 "tools[0].type: expected \"function\", came \"retrieval\""},
        BadField{std::string(kMessages) + R"(,"tools":[{"type":"function"}])",
                 "tools[0].function",
                 "tools[0].function: expected an object, came null"},
        BadField{std::string(kMessages) + R"(,"tools":[{"type":"function","function":{"name":5}}])",
                 "tools[0].function.name",
                 "tools[0].function.name: expected a string, came 5"},
        BadField{std::string(kMessages) + R"(,"tool_choice":"required")",
                 "tool_choice",
                 "tool_choice: not supported by this version: a call cannot be forced; send "
                 "\"auto\" or \"none\", and the model decides"},
        BadField{std::string(kMessages) +
                     R"(,"tool_choice":{"type":"function","function":{"name":"f"}})",
                 "tool_choice",
                 "tool_choice: not supported by this version: a call cannot be forced; send "
                 "\"auto\" or \"none\", and the model decides"},
        BadField{std::string(kMessages) + R"(,"tool_choice":"maybe")",
                 "tool_choice",
                 "tool_choice: expected \"none\", \"auto\", \"required\" or an object that names a "
                 "tool, came \"maybe\""},
        BadField{std::string(kMessages) + R"(,"documents":["x"])",
                 "documents[0]",
                 "documents[0]: expected an object, came \"x\""},
        BadField{std::string(kMessages) + R"(,"chat_template":"{{ x }}")",
                 "chat_template",
                 "chat_template: not supported by this version: the model's own template is used, "
                 "or the one that the server was started with"},
        BadField{std::string(kMessages) +
                     R"(,"continue_final_message":true,"add_generation_prompt":true)",
                 "continue_final_message",
                 "continue_final_message: expected no add_generation_prompt with it: the final "
                 "message is either continued or followed by a new one"},
        BadField{R"("messages":[{"role":"assistant","content":"a","prefix":true},)"
                 R"({"role":"user","content":"b"}])",
                 "messages[0].prefix",
                 "messages[0].prefix: expected false, as only a last message of the assistant can "
                 "be continued, came true"},
        BadField{R"("messages":[{"role":"user","content":"a","prefix":true}])",
                 "messages[0].prefix",
                 "messages[0].prefix: expected false, as only a last message of the assistant can "
                 "be continued, came true"},
        BadField{R"("messages":[{"role":"assistant","content":"a","prefix":1}])",
                 "messages[0].prefix",
                 "messages[0].prefix: expected true or false, came 1"},
        BadField{
            R"("messages":[{"role":"user","content":"a"},)"
            R"({"role":"assistant","content":"b","prefix":true}],"add_generation_prompt":true)",
            "messages[1].prefix",
            "messages[1].prefix: expected no add_generation_prompt with it: the final message "
            "is either continued or followed by a new one"},
        BadField{R"("continue_final_message":false,)"
                 R"("messages":[{"role":"assistant","content":"b","prefix":true}])",
                 "continue_final_message",
                 "continue_final_message: expected what messages[0].prefix says, came false"},
        BadField{std::string(kMessages) + R"(,"chat_template_args":{"enable_thinking":false})",
                 "chat_template_args",
                 "chat_template_args: not supported by this version: it is called "
                 "chat_template_kwargs here"},
        BadField{std::string(kMessages) + R"(,"enable_thinking":"no")",
                 "enable_thinking",
                 "enable_thinking: expected true or false, came \"no\""},
        BadField{std::string(kMessages) + R"(,"thinking":true)",
                 "thinking",
                 "thinking: expected an object with a type of \"enabled\" or \"disabled\", came "
                 "true"},
        BadField{std::string(kMessages) + R"(,"thinking":{"budget_tokens":64})",
                 "thinking.type",
                 "thinking.type: expected \"enabled\" or \"disabled\", came null"},
        BadField{std::string(kMessages) + R"(,"thinking":{"type":"adaptive"})",
                 "thinking.type",
                 "thinking.type: expected \"enabled\" or \"disabled\", came \"adaptive\""},
        BadField{std::string(kMessages) + R"(,"thinking":{"type":"enabled","budget_tokens":64})",
                 "thinking.budget_tokens",
                 "thinking.budget_tokens: not supported by this version: thinking is on or off; "
                 "send its type alone"},
        BadField{
            std::string(kMessages) + R"(,"thinking":{"type":"enabled"},"enable_thinking":false)",
            "thinking",
            "thinking: expected what enable_thinking says, came the opposite; send one of "
            "them"},
        BadField{R"("messages":[{"role":"assistant","tool_calls":[{"function":{}}]}])",
                 "messages[0].tool_calls[0].function.name",
                 "messages[0].tool_calls[0].function.name: expected a string, came null"},
        BadField{R"("messages":[{"role":"assistant","tool_calls":[{"id":"x"}]}])",
                 "messages[0].tool_calls[0].function",
                 "messages[0].tool_calls[0].function: expected an object with name and arguments, "
                 "came null"},
        BadField{std::string(kMessages) + R"(,"echo":true)",
                 "echo",
                 "echo: not supported by this version: only completions echo the prompt"},
        BadField{std::string(kMessages) + R"(,"chat_template_kwargs":{"messages":[]})",
                 "chat_template_kwargs.messages",
                 "chat_template_kwargs.messages: is set by the request itself, not by a template "
                 "variable"},
        BadField{std::string(kMessages) + R"(,"n":1,"n":2)",
                 "(none)",
                 "the request body: the key \"n\" stands twice in one object"}));

class BadCompletionField : public testing::TestWithParam<BadField> {};

TEST_P(BadCompletionField, IsRefusedByName) {
  const BadField& bad = GetParam();
  expect_error(parse_completion_request("{" + bad.fields + "}", bounds()), bad);
}

INSTANTIATE_TEST_SUITE_P(
    Fields,
    BadCompletionField,
    testing::Values(
        BadField{R"("model":"m")", "prompt", "prompt: expected a string or a list, came nothing"},
        BadField{R"("prompt":[])",
                 "prompt",
                 "prompt: expected a string, a list of strings, a list of token ids or a list of "
                 "such lists, came an empty array"},
        BadField{R"("prompt":["a",5])",
                 "prompt[1]",
                 "prompt[1]: expected a string, like the first prompt, came 5"},
        BadField{R"("prompt":[1,"a"])",
                 "prompt[1]",
                 R"(prompt[1]: expected a token id from 0 to 999, came "a")"},
        BadField{R"("prompt":[1e300,1])",
                 "prompt[0]",
                 "prompt[0]: expected a token id from 0 to 999, came 1e+300"},
        BadField{R"("prompt":[18446744073709551616])",
                 "prompt[0]",
                 "prompt[0]: expected a token id from 0 to 999, came 18446744073709551616"},
        BadField{R"("prompt":[[1],[]])",
                 "prompt[1]",
                 "prompt[1]: expected at least one token id, came an empty array"},
        BadField{R"("prompt":["a","b"],"n":100)",
                 "n",
                 "n: expected at most 128 choices for all prompts together, came 100 for each of "
                 "2 prompts"},
        BadField{R"("prompt":"a","chat_template_args":{"enable_thinking":false})",
                 "chat_template_args",
                 "chat_template_args: not supported by this version: only chat has a template"},
        BadField{R"("prompt":"a","enable_thinking":false)",
                 "enable_thinking",
                 "enable_thinking: not supported by this version: only chat has a template"},
        BadField{R"("prompt":"a","thinking":{"type":"enabled"})",
                 "thinking",
                 "thinking: not supported by this version: only chat has a template"},
        BadField{R"("prompt":"a","echo":true,"logprobs":1)",
                 "echo",
                 "echo: not supported by this version: prompts have no logprobs; leave out echo "
                 "or logprobs"},
        BadField{R"("prompt":"a","best_of":3)",
                 "best_of",
                 "best_of: not supported by this version: choices are not ranked; leave it out, "
                 "or send the value of n"},
        BadField{R"("prompt":"a","suffix":"b")",
                 "suffix",
                 "suffix: not supported by this version: text is only continued at its end"},
        BadField{R"("prompt":"a","guided_choice":["a"])",
                 "guided_choice",
                 "guided_choice: not supported by this version: answers are free text"},
        BadField{R"("prompt":"a","logprobs":true)",
                 "logprobs",
                 "logprobs: expected an integer from 0 to 20, came true"},
        BadField{R"("prompt":"a","logprobs":21)",
                 "logprobs",
                 "logprobs: expected an integer from 0 to 20, came 21"}));

std::string message_of(std::string_view json) {
  const auto parsed = parse_chat_request(json);
  return parsed ? "accepted" : parsed.error().message;
}

TEST(BadJson, IsRefusedWithItsPosition) {
  EXPECT_EQ(message_of("{not json").rfind("the request body: not valid JSON at byte 3: ", 0), 0U)
      << message_of("{not json");
  EXPECT_EQ(message_of("[1]"), "the request body: expected a JSON object, came an array");
  EXPECT_EQ(message_of(""), "the request body: expected a JSON object, came nothing");
  EXPECT_NE(message_of("{} x").find("not valid JSON"), std::string::npos);
  EXPECT_NE(message_of("{\"messages\":[{\"role\":\"user\",\"content\":\"\xC3\x28\"}]}")
                .find("ill-formed UTF-8"),
            std::string::npos);
}

TEST(BadJson, IsRefusedBeyondItsDepth) {
  const auto nested = [](std::size_t depth) {
    return "{\"x\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "," +
           std::string(kMessages) + "}";
  };
  EXPECT_EQ(message_of(nested(64)), "accepted");
  EXPECT_EQ(message_of(nested(65)), "the request body: the JSON is nested deeper than 64 levels");
  // Neither time nor stack may grow with what a client nests.
  EXPECT_EQ(message_of(std::string(1 << 20, '[')),
            "the request body: the JSON is nested deeper than 64 levels");
}

TEST(BadJson, FindsADuplicateAmongManyKeys) {
  std::string json = "{";
  for (int i = 0; i < 5000; ++i) {
    json += "\"k" + std::to_string(i) + "\":0,";
  }
  EXPECT_EQ(message_of(json + "\"k77\":1," + std::string(kMessages) + "}"),
            "the request body: the key \"k77\" stands twice in one object");
}

}  // namespace
}  // namespace phalanx::openai
