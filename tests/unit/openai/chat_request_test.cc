// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "phalanx/openai/requests.h"

namespace phalanx::openai {
namespace {

ChatRequest parse(std::string_view json) {
  auto parsed = parse_chat_request(json);
  if (!parsed) {
    ADD_FAILURE() << parsed.error().message;
    return {};
  }
  return *std::move(parsed);
}

ChatRequest parse_with(const std::string& fields) {
  return parse(R"({"messages":[{"role":"user","content":"hi"}],)" + fields + "}");
}

TEST(ChatRequest, LeavesAbsentFieldsToTheModel) {
  const ChatRequest request = parse_with(R"("temperature":null)");
  const GenerationFields& fields = request.generation;
  EXPECT_EQ(request.model, "");
  EXPECT_TRUE(request.conversation.add_generation_prompt);
  EXPECT_FALSE(request.conversation.continue_final_message);
  EXPECT_EQ(request.conversation.tools_json, "");
  EXPECT_FALSE(fields.temperature);
  EXPECT_FALSE(fields.top_p);
  EXPECT_FALSE(fields.top_k);
  EXPECT_FALSE(fields.seed);
  EXPECT_FALSE(fields.max_tokens);
  EXPECT_FALSE(fields.top_logprobs);
  EXPECT_EQ(fields.n, 1U);
  EXPECT_FALSE(fields.stream);
  EXPECT_TRUE(fields.skip_special_tokens);
}

TEST(ChatRequest, ASeedOfMinusOneIsNone) {
  for (const char* const none : {"-1", "-1.0", "null"}) {
    EXPECT_FALSE(parse_with("\"seed\":" + std::string(none)).generation.seed) << none;
  }
  EXPECT_EQ(parse_with(R"("seed":0)").generation.seed, 0);
  EXPECT_EQ(parse_with(R"("seed":-2)").generation.seed, -2);
}

TEST(ChatRequest, TakesNoShareForTheLeast) {
  for (const char* const none : {"0", "0.0", "-0.0"}) {
    EXPECT_EQ(parse_with("\"top_p\":" + std::string(none)).generation.top_p, 1e-10F) << none;
  }
}

TEST(ChatRequest, ReadsEveryField) {
  const ChatRequest request = parse_with(
      R"("model":"m","temperature":0.5,"top_p":1,"top_k":-1,"min_p":0.25,"repetition_penalty":1.5,)"
      R"("presence_penalty":-2,"frequency_penalty":2,"logit_bias":{"20":-100,"3":0.5},"seed":-5,)"
      R"("n":3,"max_tokens":7,"min_tokens":2,"stop":["a","b"],"stop_token_ids":[9,4,9],)"
      R"("ignore_eos":true,"include_stop_str_in_output":true,"skip_special_tokens":false,)"
      R"("logprobs":true,"top_logprobs":4,"stream":true,"user":"u",)"
      R"("stream_options":{"include_usage":true,"continuous_usage_stats":true},)"
      R"("add_generation_prompt":false,"chat_template_kwargs":{"enable_thinking":false})");
  const GenerationFields& fields = request.generation;
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(fields.temperature, 0.5F);
  EXPECT_EQ(fields.top_p, 1.0F);
  EXPECT_EQ(fields.top_k, 0);
  EXPECT_EQ(fields.min_p, 0.25F);
  EXPECT_EQ(fields.repetition_penalty, 1.5F);
  EXPECT_EQ(fields.presence_penalty, -2.0F);
  EXPECT_EQ(fields.frequency_penalty, 2.0F);
  EXPECT_EQ(fields.logit_bias, (std::vector<std::pair<TokenId, float>>{{3, 0.5F}, {20, -100.0F}}));
  EXPECT_EQ(fields.seed, -5);
  EXPECT_EQ(fields.n, 3U);
  EXPECT_EQ(fields.max_tokens, 7U);
  EXPECT_EQ(fields.max_tokens_field, "max_tokens");
  EXPECT_EQ(fields.min_tokens, 2U);
  EXPECT_EQ(fields.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(fields.stop_token_ids, (std::vector<TokenId>{4, 9}));
  EXPECT_TRUE(fields.ignore_eos);
  EXPECT_TRUE(fields.include_stop_str_in_output);
  EXPECT_FALSE(fields.skip_special_tokens);
  EXPECT_EQ(fields.top_logprobs, 4U);
  EXPECT_TRUE(fields.stream);
  EXPECT_TRUE(fields.include_usage);
  EXPECT_TRUE(fields.continuous_usage_stats);
  EXPECT_EQ(fields.user, "u");
  EXPECT_FALSE(request.conversation.add_generation_prompt);
  EXPECT_EQ(request.conversation.variables_json, R"({"enable_thinking":false})");
  EXPECT_TRUE(fields.ignored_fields.empty());
}

TEST(ChatRequest, TheNewerSpellingOfMaxTokensWins) {
  for (const char* fields : {R"("max_tokens":7,"max_completion_tokens":9)",
                             R"("max_completion_tokens":9,"max_tokens":7)"}) {
    const ChatRequest request = parse_with(fields);
    EXPECT_EQ(request.generation.max_tokens, 9U);
    EXPECT_EQ(request.generation.max_tokens_field, "max_completion_tokens");
  }
}

TEST(ChatRequest, LogprobsWithoutTopAsksForTheTokenAlone) {
  EXPECT_EQ(parse_with(R"("logprobs":true)").generation.top_logprobs, 0U);
  EXPECT_FALSE(parse_with(R"("logprobs":false,"top_logprobs":0)").generation.top_logprobs);
}

TEST(ChatRequest, WritesTheConversationForTheTemplate) {
  const ChatRequest request = parse(
      R"({"messages":[{"role":"developer","content":"be brief"},)"
      R"({"content":[{"type":"text","text":"one"},{"refusal":"tw\u00f6","type":"refusal"}],"role":"user"},)"
      R"({"role":"assistant","content":null,"tool_calls":[]},)"
      R"({"role":"tool","tool_call_id":"c","content":"3\n","name":"f","weight":1}]})");
  EXPECT_EQ(request.conversation.messages_json,
            R"([{"role":"developer","content":"be brief"},)"
            R"({"role":"user","content":[{"type":"text","text":"one"},)"
            "{\"type\":\"text\",\"text\":\"tw\xC3\xB6\"}]},"
            R"({"role":"assistant","content":""},)"
            R"({"role":"tool","content":"3\n","tool_call_id":"c","name":"f"}])");
  EXPECT_EQ(request.conversation.message_count, 4U);
  EXPECT_EQ(request.generation.ignored_fields, (std::vector<std::string>{"messages[3].weight"}));
}

TEST(ChatRequest, TakesEveryRoleThatATemplateMayKnow) {
  for (const std::string role : {"ipython", "function", "System-2_a.B", "end"}) {
    const ChatRequest request = parse(R"({"messages":[{"role":")" + role +
                                      R"(","content":"a","name":"f"},)"
                                      R"({"role":"user","content":"b"}]})");
    EXPECT_EQ(request.conversation.messages_json,
              R"([{"role":")" + role +
                  R"(","content":"a","name":"f"},)"
                  R"({"role":"user","content":"b"}])");
    EXPECT_TRUE(request.generation.ignored_fields.empty()) << role;
  }
  const auto takes = [](const std::string& role) {
    return parse_chat_request(R"({"messages":[{"role":")" + role + R"(","content":"a"}]})")
        .has_value();
  };
  EXPECT_TRUE(takes(std::string(64, 'r')));
  EXPECT_FALSE(takes(std::string(65, 'r')));
  for (const char* role : {"a b", "a|b", "<user>", "a\n", "rôle"}) {
    EXPECT_FALSE(takes(role)) << role;
  }
}

// As SDKs append an answer to the history.
TEST(ChatRequest, KnowsTheMembersOfAnswersThatCarryNothing) {
  const ChatRequest request = parse(
      R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b",)"
      R"("refusal":null,"annotations":[],"audio":null,"function_call":null,"tool_calls":null},)"
      R"({"role":"assistant","content":"c","refusal":"","annotations":null,"audio":{}}]})");
  EXPECT_TRUE(request.generation.ignored_fields.empty());
  EXPECT_EQ(request.conversation.messages_json,
            R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"},)"
            R"({"role":"assistant","content":"c"}])");
  const ChatRequest refusing =
      parse(R"({"messages":[{"role":"assistant","content":null,"refusal":"No.","annotations":[{}],)"
            R"("function_call":{"name":"f","arguments":"{}"}}]})");
  EXPECT_EQ(refusing.conversation.messages_json, R"([{"role":"assistant","content":""}])");
  EXPECT_EQ(refusing.generation.ignored_fields,
            (std::vector<std::string>{
                "messages[0].refusal", "messages[0].annotations", "messages[0].function_call"}));
}

TEST(ChatRequest, TakesIntegersThatAreWrittenAsReals) {
  EXPECT_EQ(parse_with(R"("seed":1e18)").generation.seed, 1'000'000'000'000'000'000);
  EXPECT_EQ(parse_with(R"("seed":-9223372036854775808.0)").generation.seed,
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(parse_with(R"("max_tokens":1.6E1)").generation.max_tokens, 16U);
  EXPECT_EQ(parse_with(R"("top_k":50.0)").generation.top_k, 50);
}

TEST(ChatRequest, WritesTheArgumentsOfToolCallsAsObjects) {
  const ChatRequest request = parse(
      R"({"messages":[{"role":"assistant","tool_calls":[)"
      R"({"id":"c","type":"function","index":0,"function":{"arguments":"{\"z\": 1, \"a\": 2.5}","name":"f"}},)"
      R"({"function":{"name":"g","arguments":{"b":[]}}},{"function":{"name":"h","arguments":""}},)"
      R"({"function":{"name":"i"}}]}]})");
  EXPECT_EQ(
      request.conversation.messages_json,
      R"([{"role":"assistant","content":"","tool_calls":[)"
      R"({"id":"c","type":"function","function":{"name":"f","arguments":{"z":1,"a":2.5}}},)"
      R"({"function":{"name":"g","arguments":{"b":[]}}},)"
      R"({"function":{"name":"h","arguments":{}}},{"function":{"name":"i","arguments":{}}}]}])");
}

TEST(ChatRequest, GivesThoughtsUnderBothNames) {
  EXPECT_EQ(parse(R"({"messages":[{"role":"assistant","content":"a","reasoning":"r"}]})")
                .conversation.messages_json,
            R"([{"role":"assistant","content":"a","reasoning":"r","reasoning_content":"r"}])");
  EXPECT_EQ(parse(R"({"messages":[{"role":"assistant","content":"a","reasoning_content":"r"}]})")
                .conversation.messages_json,
            R"([{"role":"assistant","content":"a","reasoning_content":"r","reasoning":"r"}])");
  EXPECT_EQ(
      parse(
          R"({"messages":[{"role":"assistant","content":"a","reasoning":"r","reasoning_content":"c"}]})")
          .conversation.messages_json,
      R"([{"role":"assistant","content":"a","reasoning":"r","reasoning_content":"c"}])");
}

TEST(ChatRequest, PassesToolsAndDocumentsAsTheyAre) {
  const ChatRequest request = parse_with(
      R"("tools":[{"type":"function","function":{"parameters":{"z":18446744073709551615,"a":1.0},"name":"f"}}],)"
      R"("tool_choice":"auto","documents":[{"title":"t","text":"x"}])");
  EXPECT_EQ(
      request.conversation.tools_json,
      R"([{"type":"function","function":{"parameters":{"z":18446744073709551615,"a":1.0},"name":"f"}}])");
  EXPECT_EQ(request.conversation.documents_json, R"([{"title":"t","text":"x"}])");
  EXPECT_EQ(parse_with(R"("tools":[],"documents":[])").conversation.tools_json, "");
}

TEST(ChatRequest, AToolWithoutATypeIsAFunction) {
  for (const std::string type : {"", R"("type":null,)"}) {
    EXPECT_EQ(parse_with(R"("tools":[{)" + type + R"("function":{"name":"f"},"strict":true}])")
                  .conversation.tools_json,
              R"([{"type":"function","function":{"name":"f"},"strict":true}])");
  }
}

TEST(ChatRequest, TakesTextPartsByTheirOtherNamesAndPlainOnes) {
  const ChatRequest request =
      parse(R"({"messages":[{"role":"user","content":[{"type":"input_text","text":"a"},"b"]},)"
            R"({"role":"assistant","content":[{"type":"output_text","text":"c"}]}]})");
  EXPECT_EQ(request.conversation.messages_json,
            R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},)"
            R"({"role":"assistant","content":[{"type":"text","text":"c"}]}])");
  EXPECT_TRUE(request.generation.ignored_fields.empty());
}

TEST(ChatRequest, ContinuingTheFinalMessageMeansNoNewOne) {
  const ChatRequest request = parse_with(R"("continue_final_message":true)");
  EXPECT_TRUE(request.conversation.continue_final_message);
  EXPECT_FALSE(request.conversation.add_generation_prompt);
  EXPECT_TRUE(parse_with(R"("continue_final_message":false,"add_generation_prompt":true)")
                  .conversation.add_generation_prompt);
}

// As DeepSeek and Mistral have it.
TEST(ChatRequest, APrefixIsAFinalMessageToContinue) {
  const auto conversation = [](const std::string& prefix, const std::string& fields = "") {
    const ChatRequest request =
        parse(R"({"messages":[{"role":"user","content":"a","prefix":false},)"
              R"({"role":"assistant","content":"b","prefix":)" +
              prefix + "}]" + fields + "}");
    EXPECT_TRUE(request.generation.ignored_fields.empty());
    EXPECT_EQ(request.conversation.messages_json,
              R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])");
    return request.conversation;
  };
  for (const char* const fields : {"",
                                   R"(,"continue_final_message":true)",
                                   R"(,"continue_final_message":null)",
                                   R"(,"add_generation_prompt":false)"}) {
    EXPECT_TRUE(conversation("true", fields).continue_final_message) << fields;
    EXPECT_FALSE(conversation("true", fields).add_generation_prompt) << fields;
  }
  for (const char* const none : {"false", "null"}) {
    EXPECT_FALSE(conversation(none).continue_final_message) << none;
    EXPECT_TRUE(conversation(none).add_generation_prompt) << none;
  }
  EXPECT_TRUE(conversation("false", R"(,"continue_final_message":true)").continue_final_message);
}

TEST(ChatRequest, AcceptsFieldsThatAskForWhatHappensAnyway) {
  const ChatRequest request = parse_with(
      R"("tools":[],"tool_choice":"none","response_format":{"type":"text"},)"
      R"("modalities":["text"],"functions":[],"use_beam_search":false,"length_penalty":1.0,)"
      R"("metadata":{"a":"b"},"store":true,"service_tier":"auto","echo":false,"priority":0,)"
      R"("parallel_tool_calls":true,"audio":null,"top_n_sigma":-1,"mirostat_mode":0,"best_of":1,)"
      R"("rep_pen":1,"no_repeat_ngram_size":0,"stop_sequences":[],"lora":[],"do_sample":true,)"
      R"("num_beams":1,"options":{},"ban_eos_token":false,"system":"","t_max_predict_ms":-1,)"
      R"("repeat_last_n":-1,"reasoning_budget":-1,"thinking_budget_tokens":-1,"truncate":false,)"
      R"("adaptive_target":-1.0,"extra_body":{},"chat_template_args":{},)"
      R"("prediction":{"type":"content","content":"a"})");
  EXPECT_TRUE(request.generation.ignored_fields.empty());
  EXPECT_TRUE(parse_with(R"("guided_choice":[])").generation.ignored_fields.empty());
  for (const std::string spaces : {"true", "false"}) {
    EXPECT_TRUE(parse_with(R"("spaces_between_special_tokens":)" + spaces)
                    .generation.ignored_fields.empty());
  }
}

// Usage with every event is usage, unless that was declined.
TEST(ChatRequest, TakesContinuousUsageAsUsageWhereThatIsNotDeclined) {
  const auto usage_of = [](const std::string& options) {
    const auto request = parse_with(R"("stream":true,"stream_options":{)" + options + "}");
    return std::pair(request.generation.include_usage, request.generation.continuous_usage_stats);
  };
  EXPECT_EQ(usage_of(R"("continuous_usage_stats":true)"), std::pair(true, true));
  EXPECT_EQ(usage_of(R"("continuous_usage_stats":true,"include_usage":null)"),
            std::pair(true, true));
  EXPECT_EQ(usage_of(R"("continuous_usage_stats":true,"include_usage":false)"),
            std::pair(false, false));
  EXPECT_EQ(usage_of(R"("continuous_usage_stats":false,"include_usage":true)"),
            std::pair(true, false));
  EXPECT_EQ(usage_of(R"("continuous_usage_stats":false)"), std::pair(false, false));
}

TEST(ChatRequest, ListsUnknownMembersOfPartsAndCalls) {
  const ChatRequest request = parse(
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"a","more":1,"none":null}]},)"
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","index":0,)"
      R"("colour":1,"function":{"name":"f","arguments":"{}","size":2}}]}]})");
  EXPECT_EQ(request.generation.ignored_fields,
            (std::vector<std::string>{"messages[0].content[0].more",
                                      "messages[1].tool_calls[0].colour",
                                      "messages[1].tool_calls[0].function.size"}));
}

TEST(ChatRequest, ListsUnknownFieldsUpToABound) {
  EXPECT_EQ(parse_with(R"("colour":"red","size":{"a":[]})").generation.ignored_fields,
            (std::vector<std::string>{"colour", "size"}));
  std::string many = "\"x\":0";
  for (int i = 0; i < 100; ++i) {
    many += ",\"unknown" + std::to_string(i) + "\":0";
  }
  EXPECT_EQ(parse_with(many).generation.ignored_fields.size(), 32U);
}

}  // namespace
}  // namespace phalanx::openai
