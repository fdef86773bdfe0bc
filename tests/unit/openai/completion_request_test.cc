// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "phalanx/openai/requests.h"

namespace phalanx::openai {
namespace {

template <typename T>
T value_of(ApiResult<T> parsed) {
  if (!parsed) {
    ADD_FAILURE() << parsed.error().message;
    return {};
  }
  return *std::move(parsed);
}

template <typename T>
std::string message_of(const ApiResult<T>& parsed) {
  return parsed ? "accepted" : parsed.error().message;
}

std::vector<Prompt> prompts_of(const std::string& prompt) {
  return value_of(parse_completion_request("{\"prompt\":" + prompt + "}")).prompts;
}

TEST(CompletionRequest, ReadsEveryShapeOfPrompt) {
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(prompts_of(R"("hi")"), (std::vector<Prompt>{"hi"}));
  EXPECT_EQ(prompts_of(R"("")"), (std::vector<Prompt>{""}));
  EXPECT_EQ(prompts_of(R"(["a","b"])"), (std::vector<Prompt>{"a", "b"}));
  EXPECT_EQ(prompts_of("[5,6]"), (std::vector<Prompt>{Ids{5, 6}}));
  EXPECT_EQ(prompts_of("[[5],[6,7]]"), (std::vector<Prompt>{Ids{5}, Ids{6, 7}}));
}

TEST(CompletionRequest, LogprobsIsANumberAndZeroIsOne) {
  EXPECT_EQ(
      value_of(parse_completion_request(R"({"prompt":"a","logprobs":0})")).generation.top_logprobs,
      0U);
  for (const std::string none : {"", R"(,"logprobs":false)", R"(,"logprobs":null)"}) {
    const auto request = value_of(parse_completion_request(R"({"prompt":"a")" + none + "}"));
    EXPECT_FALSE(request.generation.top_logprobs.has_value()) << none;
  }
}

TEST(CompletionRequest, AcceptsHarmlessValuesOfUnsupportedFields) {
  const auto request = value_of(parse_completion_request(
      R"({"prompt":"a","n":2,"best_of":2,"suffix":"","echo":true,"repeat_penalty":1.0,"mirostat":0})"));
  EXPECT_TRUE(request.echo);
  EXPECT_TRUE(request.generation.ignored_fields.empty());
}

// As chat calls the count. Beside logprobs it is a field that is not known here.
TEST(CompletionRequest, TopLogprobsIsCalledLogprobs) {
  const auto read = [](const std::string& fields) {
    return parse_completion_request(R"({"prompt":"a",)" + fields + "}");
  };
  for (const char* const alone : {R"("top_logprobs":5)",
                                  R"("top_logprobs":5,"logprobs":false)",
                                  R"("logprobs":null,"top_logprobs":1e1)",
                                  R"("top_logprobs":"5")"}) {
    EXPECT_EQ(message_of(read(alone)),
              "top_logprobs: not supported by this version: it is called logprobs here")
        << alone;
  }
  const auto ignored = [&](const std::string& fields) {
    return value_of(read(fields)).generation.ignored_fields;
  };
  EXPECT_TRUE(ignored(R"("top_logprobs":0)").empty());
  EXPECT_TRUE(ignored(R"("top_logprobs":null)").empty());
  EXPECT_EQ(ignored(R"("top_logprobs":5,"logprobs":0)"), std::vector<std::string>{"top_logprobs"});
  EXPECT_EQ(value_of(read(R"("logprobs":2,"top_logprobs":5)")).generation.top_logprobs, 2U);
}

// A setting under another server's name would change the answer.
TEST(CompletionRequest, NamesTheFieldThatAnotherNameIsFor) {
  for (const auto& [sent, here] : {std::pair("n_predict", "max_tokens"),
                                   std::pair("max_new_tokens", "max_tokens"),
                                   std::pair("max_output_tokens", "max_tokens"),
                                   std::pair("stop_sequences", "stop"),
                                   std::pair("num_return_sequences", "n"),
                                   std::pair("repeat_penalty", "repetition_penalty")}) {
    const auto request =
        parse_completion_request(R"({"prompt":"a",")" + std::string(sent) + R"(":3})");
    ASSERT_FALSE(request) << sent;
    EXPECT_EQ(
        request.error().message,
        std::string(sent) + ": not supported by this version: it is called " + here + " here");
  }
}

TEST(CompletionRequest, TakesBothNamesOfMaxTokensAndAllThatIsLeft) {
  const auto read = [](const std::string& fields) {
    return value_of(parse_completion_request(R"({"prompt":"a",)" + fields + "}")).generation;
  };
  EXPECT_EQ(read(R"("max_completion_tokens":5)").max_tokens, 5U);
  EXPECT_EQ(read(R"("max_tokens":7,"max_completion_tokens":5)").max_tokens, 5U);
  EXPECT_EQ(read(R"("max_tokens":-1)").max_tokens, kRestOfContext);
  EXPECT_EQ(read(R"("max_tokens":-1,"max_completion_tokens":5)").max_tokens, 5U);
  EXPECT_EQ(read(R"("max_tokens":-1,"min_tokens":5)").min_tokens, 5U);
}

TEST(CompletionRequest, AnEmptyStopStopsNothing) {
  const auto stops = [](const std::string& stop) {
    return value_of(parse_completion_request(R"({"prompt":"a","stop":)" + stop + "}"))
        .generation.stop;
  };
  EXPECT_TRUE(stops(R"("")").empty());
  EXPECT_TRUE(stops(R"([])").empty());
  EXPECT_EQ(stops(R"(["","b",""])"), std::vector<std::string>{"b"});
}

TEST(CompletionRequest, AShareBelowTheLeastIsTheLeast) {
  for (const char* share : {"0", "0.0", "-0.0", "1e-50", "1e-40", "1e-11", "1e-10"}) {
    const auto request =
        value_of(parse_completion_request(R"({"prompt":"a","top_p":)" + std::string(share) + "}"));
    EXPECT_EQ(request.generation.top_p, 1e-10F) << share;
  }
}

TEST(CompletionRequest, SaysWhatAPromptMayBe) {
  const auto refused = [](const std::string& prompt) {
    const auto request = parse_completion_request(R"({"prompt":)" + prompt + "}");
    return request ? "" : request.error().message;
  };
  EXPECT_EQ(refused("[null]"),
            "prompt[0]: expected a string, a token id or a list of token ids, came null");
  EXPECT_EQ(refused("[[5],true]"),
            "prompt[1]: expected a list of token ids, like the first prompt, came true");
}

TEST(TokenizeRequest, GivesTheTemplateItsVariablesAndTheEffort) {
  const auto variables = [](const std::string& fields) {
    return value_of(parse_tokenize_request(R"({"messages":[{"role":"user","content":"a"}],)" +
                                           fields + "}"))
        .conversation.variables_json;
  };
  const std::string text(100, 'x');
  EXPECT_EQ(variables(R"("chat_template_kwargs":{"calm":")" + text + R"("})"),
            R"({"calm":")" + text + R"("})");
  EXPECT_EQ(variables(R"("reasoning_effort":"low")"),
            R"({"reasoning_effort":"low","enable_thinking":true})");
  EXPECT_EQ(variables(R"("reasoning_effort":"none","chat_template_kwargs":{})"),
            R"({"reasoning_effort":"none","enable_thinking":false})");
  EXPECT_EQ(variables(R"("chat_template_kwargs":{"calm":1},"reasoning_effort":"a\"b")"),
            R"({"reasoning_effort":"a\"b","enable_thinking":true,"calm":1})");
  EXPECT_EQ(
      variables(R"("reasoning_effort":"none","chat_template_kwargs":{"enable_thinking":true})"),
      R"({"reasoning_effort":"none","enable_thinking":true})");
  EXPECT_EQ(
      variables(R"("reasoning_effort":"low","chat_template_kwargs":{"reasoning_effort":null})"),
      R"({"enable_thinking":true,"reasoning_effort":null})");
}

// chat_template_kwargs stands above a switch of the request, and that above what an effort implies.
TEST(TokenizeRequest, GivesTheTemplateTheSwitchesOfThinking) {
  const auto variables = [](const std::string& fields) {
    return value_of(parse_tokenize_request(R"({"messages":[{"role":"user","content":"a"}],)" +
                                           fields + "}"))
        .conversation.variables_json;
  };
  const std::string on = R"({"enable_thinking":true})";
  const std::string off = R"({"enable_thinking":false})";
  EXPECT_EQ(variables(R"("enable_thinking":false)"), off);
  EXPECT_EQ(variables(R"("enable_thinking":true)"), on);
  EXPECT_EQ(variables(R"("enable_thinking":null)"), "");
  EXPECT_EQ(variables(R"("thinking":{"type":"disabled"})"), off);
  EXPECT_EQ(variables(R"("thinking":{"budget_tokens":null,"type":"enabled"})"), on);
  EXPECT_EQ(variables(R"("thinking":{})"), "");
  EXPECT_EQ(variables(R"("thinking":{"type":"enabled"},"enable_thinking":true)"), on);
  EXPECT_EQ(variables(R"("enable_thinking":true,"chat_template_kwargs":{"enable_thinking":false})"),
            off);
  EXPECT_EQ(variables(R"("reasoning_effort":"high","thinking":{"type":"disabled"})"),
            R"({"reasoning_effort":"high","enable_thinking":false})");
  EXPECT_EQ(variables(R"("enable_thinking":true,"reasoning_effort":"none")"),
            R"({"reasoning_effort":"none","enable_thinking":true})");
}

TEST(TokenizeRequest, RefusesOtherPlacesForWhatChangesTheTokens) {
  const auto read = [](const std::string& fields) {
    return parse_tokenize_request(R"({"messages":[{"role":"user","content":"a"}],)" + fields + "}");
  };
  EXPECT_EQ(message_of(read(R"("extra_body":{"tools":[]})")),
            "extra_body: not supported by this version: its members are fields of the request "
            "itself here");
  EXPECT_EQ(message_of(read(R"("chat_template_args":{"enable_thinking":false})")),
            "chat_template_args: not supported by this version: it is called chat_template_kwargs "
            "here");
  const auto harmless = value_of(read(R"("extra_body":{},"chat_template_args":{})"));
  EXPECT_TRUE(harmless.ignored_fields.empty());
}

TEST(TokenizeRequest, TakesEitherATextOrAConversation) {
  const auto text = value_of(parse_tokenize_request(R"({"prompt":"a","return_token_strs":true})"));
  EXPECT_EQ(text.prompt, "a");
  EXPECT_TRUE(text.add_special_tokens);
  EXPECT_TRUE(text.return_token_strs);
  const auto chat = value_of(
      parse_tokenize_request(R"({"messages":[{"role":"user","content":"a"}],"model":"m"})"));
  EXPECT_FALSE(chat.prompt);
  EXPECT_FALSE(chat.add_special_tokens);
  EXPECT_EQ(chat.conversation.messages_json, R"([{"role":"user","content":"a"}])");
  EXPECT_EQ(message_of(parse_tokenize_request("{}")),
            "prompt: expected either prompt or messages, came nothing");
  EXPECT_EQ(message_of(parse_tokenize_request(
                R"({"prompt":"a","messages":[{"role":"user","content":"a"}]})")),
            "prompt: expected either prompt or messages, came both");
  EXPECT_NE(
      message_of(parse_tokenize_request(
                     R"({"add_special_tokens":true,"messages":[{"role":"user","content":"a"}]})"))
          .find("the template writes all special tokens"),
      std::string::npos);
}

TEST(TokenizeRequest, SaysHowTheFieldsOfLlamaServerAreCalled) {
  const auto refused = [](const std::string& fields) {
    return message_of(parse_tokenize_request("{" + fields + "}"));
  };
  const std::string reason = ": not supported by this version: it is called ";
  EXPECT_EQ(refused(R"("content":"x")"), "content" + reason + "prompt here");
  for (const char* value : {"true", "false"}) {
    EXPECT_EQ(refused(R"("prompt":"x","add_special":)" + std::string(value)),
              "add_special" + reason + "add_special_tokens here");
  }
  EXPECT_EQ(refused(R"("prompt":"x","with_pieces":true)"),
            "with_pieces" + reason + "return_token_strs here");
  EXPECT_TRUE(
      value_of(parse_tokenize_request(R"({"prompt":"x","with_pieces":false,"content":null})"))
          .ignored_fields.empty());
}

TEST(DetokenizeRequest, TakesTokensOfTheVocabulary) {
  RequestBounds bounds;
  bounds.vocab_size = 10;
  EXPECT_EQ(value_of(parse_detokenize_request(R"({"tokens":[0,9]})", bounds)).tokens,
            (std::vector<TokenId>{0, 9}));
  EXPECT_TRUE(value_of(parse_detokenize_request(R"({"tokens":[]})", bounds)).tokens.empty());
  EXPECT_EQ(message_of(parse_detokenize_request(R"({"tokens":[10]})", bounds)),
            "tokens[0]: expected a token id from 0 to 9, came 10");
  EXPECT_EQ(message_of(parse_detokenize_request(R"({"model":"m"})", bounds)),
            "tokens: expected a list of token ids, came nothing");
}

}  // namespace
}  // namespace phalanx::openai
