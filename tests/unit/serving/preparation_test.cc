// SPDX-License-Identifier: Apache-2.0
#include "preparation.h"

#include <gtest/gtest.h>

#include "phalanx/http/sse.h"

#include "byte_tokenizer.h"

namespace phalanx::serving {
namespace {

class PreparationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(tokenizer_, nullptr);
    model_.name = "m";
    model_.vocab = 257;
    model_.max_model_len = 1 << 16;
    model_.tokenizer = tokenizer_.get();
    head_ = head_of(openai::Api::kText, "req-1", {}, model_);
  }

  Prepared completion(const std::string& members) {
    return prepare_completion(model_, {"{" + members + "}", head_, 7});
  }

  [[nodiscard]] std::string event(std::uint32_t index,
                                  std::string_view text,
                                  const openai::Usage* usage = nullptr) const {
    openai::ChoiceText choice;
    choice.index = index;
    choice.text = text;
    return http::sse_event(openai::StreamChunks(openai::Api::kText, head_).text(choice, usage));
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer_ = make_byte_tokenizer();
  ServedModel model_;
  openai::ResponseHead head_;
};

TEST_F(PreparationTest, MakesTheEventsOfAnEchoForEveryChoice) {
  const Prepared prepared =
      completion(R"("prompt":["a\u00e9","b"],"n":2,"echo":true,"stream":true)");
  ASSERT_FALSE(prepared.error) << prepared.error->message;
  ASSERT_EQ(prepared.answer.echo.size(), 2U);
  EXPECT_EQ(prepared.answer.echo[0].events,
            (std::vector{event(0, "a\u00e9"), event(1, "a\u00e9")}));
  EXPECT_EQ(prepared.answer.echo[1].events, (std::vector{event(2, "b"), event(3, "b")}));
  EXPECT_EQ(prepared.answer.head.id, head_.id);
  EXPECT_EQ(prepared.prompts.size(), 2U);
}

// Of all prompts, of which most come behind the first echo.
TEST_F(PreparationTest, EveryEventOfAnEchoHasTheUsageThatIsAskedFor) {
  const Prepared prepared = completion(
      R"("prompt":["abc","d"],"echo":true,"stream":true,"stream_options":{"continuous_usage_stats":true})");
  ASSERT_FALSE(prepared.error) << prepared.error->message;
  openai::Usage usage;
  usage.prompt_tokens = 4;
  EXPECT_EQ(prepared.answer.echo[0].events, std::vector{event(0, "abc", &usage)});
  EXPECT_EQ(prepared.answer.echo[1].events, std::vector{event(1, "d", &usage)});
}

TEST_F(PreparationTest, KeepsTheTextOfAnEchoForAWholeAnswer) {
  const Prepared prepared = completion(R"("prompt":[97,98],"n":3,"echo":true)");
  ASSERT_FALSE(prepared.error) << prepared.error->message;
  ASSERT_EQ(prepared.answer.echo.size(), 1U);
  EXPECT_EQ(prepared.answer.echo[0].text, "ab");
  EXPECT_TRUE(prepared.answer.echo[0].events.empty());
}

// They are samples of the same distribution, as n choices of one prompt are.
TEST_F(PreparationTest, DrawsForEachPromptUnlessTheClientGaveASeed) {
  const auto seeds = [this](const std::string& more) {
    const Prepared prepared = completion(R"("prompt":["a","a","a"])" + more);
    std::vector<std::uint64_t> all;
    for (const GenerationRequest& prompt : prepared.prompts) {
      all.push_back(prompt.generation.sampling.seed);
    }
    return all;
  };
  const std::vector<std::uint64_t> drawn = seeds("");
  ASSERT_EQ(drawn.size(), 3U);
  EXPECT_EQ(drawn[0], 7U);
  EXPECT_NE(drawn[0], drawn[1]);
  EXPECT_NE(drawn[1], drawn[2]);
  EXPECT_NE(drawn[0], drawn[2]);
  EXPECT_EQ(seeds(""), drawn) << "the same wherever the body is read again";
  for (const std::uint64_t seed : drawn) {
    EXPECT_LE(seed, std::uint64_t{INT64_MAX}) << "so that a request can name what was drawn";
  }
  EXPECT_EQ(seeds(R"(,"seed":5)"), std::vector<std::uint64_t>(3, 5));
}

TEST_F(PreparationTest, TellsTheStopTokensOfTheClientFromThoseOfTheModel) {
  model_.end_tokens = {97, 256};
  const auto own = [this](const std::string& more) {
    const Prepared prepared = completion(R"("prompt":"a")" + more);
    return prepared.prompts.at(0).text.own_stop_tokens;
  };
  EXPECT_EQ(own(""), std::vector<TokenId>());
  EXPECT_EQ(own(R"(,"stop_token_ids":[99,97])"), std::vector<TokenId>{99});
  EXPECT_EQ(own(R"(,"stop_token_ids":[99,97],"ignore_eos":true)"), (std::vector<TokenId>{97, 99}));
}

TEST_F(PreparationTest, MaxTokensIsWhatWasSentOrTheDefaultOrAllThatIsLeft) {
  model_.max_model_len = 100;
  const auto most = [this](const std::string& more) {
    const Prepared prepared = completion(R"("prompt":"abc")" + more);
    EXPECT_FALSE(prepared.error) << prepared.error->message;
    return prepared.prompts.at(0).generation.stop.max_tokens;
  };
  EXPECT_EQ(most(""), 16U);
  EXPECT_EQ(most(R"(,"max_tokens":40)"), 40U);
  EXPECT_EQ(most(R"(,"max_tokens":-1)"), 97U);
  EXPECT_EQ(most(R"(,"max_tokens":-1,"min_tokens":97)"), 97U);
  const auto refusal = [this](const std::string& more) {
    const Prepared prepared = completion(R"("prompt":"abc")" + more);
    return prepared.error ? prepared.error->message : "";
  };
  EXPECT_EQ(refusal(R"(,"min_tokens":17)"),
            "min_tokens: expected at most 16, which max_tokens is where none is sent, came 17");
  EXPECT_EQ(refusal(R"(,"max_tokens":-1,"min_tokens":98)"),
            "min_tokens: expected at most 97, which the context leaves behind the prompt, came 98");
}

TEST_F(PreparationTest, TheModelIsAskedForByAnyOfItsNames) {
  model_.aliases = {"org/m", "n"};
  for (const char* const model :
       {"", R"(,"model":"m")", R"(,"model":"org/m")", R"(,"model":"n")"}) {
    const Prepared prepared = completion(R"("prompt":"a")" + std::string(model));
    EXPECT_FALSE(prepared.error) << model;
    EXPECT_EQ(prepared.answer.head.model, "m") << model;
  }
  const Prepared other = completion(R"("prompt":"a","model":"o")");
  ASSERT_TRUE(other.error);
  EXPECT_EQ(other.error->message,
            R"(the model "o" is not served here; this server has "m", "org/m", "n")");
}

TEST_F(PreparationTest, NamesThePromptThatIsWrong) {
  const Prepared one = completion(R"("prompt":"")");
  ASSERT_TRUE(one.error);
  EXPECT_EQ(one.error->message, "prompt: expected text of at least one token, came none");
  const Prepared second = completion(R"("prompt":["a",""])");
  ASSERT_TRUE(second.error);
  EXPECT_EQ(second.error->message, "prompt[1]: expected text of at least one token, came none");
}

TEST_F(PreparationTest, RefusesAnEchoThatIsTooLargeBeforeItIsMade) {
  const Prepared prepared = completion(R"("prompt":")" + std::string(40'000, 'a') +
                                       R"(","n":128,"echo":true,"stream":true)");
  ASSERT_TRUE(prepared.error);
  EXPECT_EQ(prepared.error->param, "echo");
  EXPECT_TRUE(prepared.answer.echo.empty());
}

}  // namespace
}  // namespace phalanx::serving
