// SPDX-License-Identifier: Apache-2.0
// From the body of a chat request to the ids of its prompt.
#include <gtest/gtest.h>

#include "phalanx/openai/requests.h"
#include "phalanx/serving/served_model.h"

#include "byte_tokenizer.h"

namespace phalanx::serving {
namespace {

constexpr const char* kTemplate =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}!{{ c.function.name }}{{ c.function.arguments|tojson }}"
    "{% endfor %}<|end|>{% endfor %}"
    "{% if tools %}{{ tools|map(attribute='function.name')|join(',') }};{% endif %}"
    "{% if calm is defined and calm %}calm;{% endif %}"
    "{% if dated is defined and dated %}{{ strftime_now('%Y-%m') }};{% endif %}"
    "{% if messages[-1].content == 'no' %}{{ raise_exception('I will not.') }}{% endif %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";
constexpr const char* kTools =
    R"(,"tools":[{"type":"function","function":{"name":"add"}},{"type":"function","function":{"name":"sub"}}])";

class ChatPromptTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(tokenizer_, nullptr);
    model_.name = "m";
    model_.tokenizer = tokenizer_.get();
    model_.chat_template = &template_;
  }

  openai::ApiResult<std::vector<TokenId>> prompt(const std::string& body) {
    PHALANX_TRY(const openai::ChatRequest request, openai::parse_chat_request(body));
    return tokenize_chat(model_, request.conversation, kCreated);
  }

  static constexpr std::int64_t kCreated = 1'000'000'000;  // 2001-09

  // The prompt as text, special tokens in brackets.
  std::string text_of(const std::string& messages, const std::string& fields = "") {
    const auto ids = prompt(R"({"messages":)" + messages + fields + "}");
    if (!ids) {
      return *ids.error().param + "! " + ids.error().message;
    }
    std::string text;
    for (const TokenId id : *ids) {
      text += tokenizer_->is_special(id) ? "[" + tokenizer_->token_text(id) + "]"
                                         : tokenizer_->decode({&id, 1});
    }
    return text;
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer_ = make_byte_tokenizer();
  tokenizer::ChatTemplate template_ = *tokenizer::ChatTemplate::compile(kTemplate);
  ServedModel model_;
};

constexpr const char* kHello = R"([{"role":"user","content":"hi"}])";

// Whoever renders it once more, after a death, gets the same prompt.
TEST_F(ChatPromptTest, TheTimeOfATemplateIsThatOfTheRequest) {
  EXPECT_NE(
      text_of(R"([{"role":"user","content":"x"}])", R"(,"chat_template_kwargs":{"dated":true})")
          .find("2001-09;"),
      std::string::npos);
}

TEST_F(ChatPromptTest, RendersToolsCallsAndVariables) {
  EXPECT_EQ(text_of(kHello), "<user>hi[<|end|>]<assistant>");
  EXPECT_EQ(text_of(kHello, kTools), "<user>hi[<|end|>]add,sub;<assistant>");
  EXPECT_EQ(text_of(kHello, std::string(kTools) + R"(,"tool_choice":"none")"),
            "<user>hi[<|end|>]add,sub;<assistant>");
  EXPECT_EQ(text_of(kHello, R"(,"chat_template_kwargs":{"calm":true})"),
            "<user>hi[<|end|>]calm;<assistant>");
  EXPECT_EQ(
      text_of(
          R"([{"role":"assistant","tool_calls":[{"function":{"name":"add","arguments":"{\"b\": 1, \"a\":2}"}}]},)"
          R"({"role":"tool","content":"3"}])"),
      R"(<assistant>!add{"b": 1, "a": 2}[<|end|>]<tool>3[<|end|>]<assistant>)");
}

// Histories as agents send them again, with what a model may have got wrong.
TEST_F(ChatPromptTest, RendersCallsThatAreNotWhole) {
  const auto call = [&](const std::string& members) {
    return text_of(R"([{"role":"assistant","tool_calls":[{)" + members + R"(}]}])");
  };
  EXPECT_EQ(call(R"("id":null,"type":null,"function":{"name":"f","arguments":"{\"a\": 1}"})"),
            R"(<assistant>!f{"a": 1}[<|end|>]<assistant>)");
  EXPECT_EQ(call(R"("function":{"name":"f","arguments":"{a:1"})"),
            R"(<assistant>!f"{a:1"[<|end|>]<assistant>)");
  EXPECT_EQ(call(R"("function":{"name":"f","arguments":"[1]"})"),
            R"(<assistant>!f"[1]"[<|end|>]<assistant>)");
  for (const char* content : {"", R"(,"content":null)"}) {
    EXPECT_EQ(text_of(R"([{"role":"tool")" + std::string(content) + "}]"),
              "<tool>[<|end|>]<assistant>");
  }
}

TEST_F(ChatPromptTest, GivesTheTemplateTheEffort) {
  template_ = *tokenizer::ChatTemplate::compile("{{ reasoning_effort }}{{ calm }}");
  EXPECT_EQ(text_of(kHello, R"(,"reasoning_effort":"low")"), "low");
  EXPECT_EQ(text_of(kHello, R"(,"reasoning_effort":null,"chat_template_kwargs":{"calm":1})"), "1");
  EXPECT_EQ(text_of(kHello, R"(,"reasoning_effort":"low","chat_template_kwargs":{"calm":1})"),
            "low1");
  EXPECT_EQ(
      text_of(kHello,
              R"(,"chat_template_kwargs":{"reasoning_effort":"high"},"reasoning_effort":"low")"),
      "high");
  EXPECT_EQ(text_of(kHello, R"(,"reasoning_effort":1)"),
            "reasoning_effort! reasoning_effort: expected a string, came 1");
}

TEST_F(ChatPromptTest, ContinuesTheFinalMessage) {
  EXPECT_EQ(text_of(R"([{"role":"user","content":"hi"},{"role":"assistant","content":"I am "}])",
                    R"(,"continue_final_message":true)"),
            "<user>hi[<|end|>]<assistant>I am ");
  EXPECT_EQ(text_of(kHello, R"(,"add_generation_prompt":false)"), "<user>hi[<|end|>]");
}

TEST_F(ChatPromptTest, GivesTheTemplatesWordsAndNamesTheField) {
  EXPECT_EQ(text_of(R"([{"role":"user","content":"no"}])"),
            "messages! the chat template of m: I will not.");
  EXPECT_EQ(text_of(kHello, R"(,"documents":[{"text":"t"}])"),
            "documents! documents: the chat template of m takes none; leave them out");
  template_ = *tokenizer::ChatTemplate::compile("{{ messages[0].content }}");
  EXPECT_EQ(text_of(kHello, kTools),
            "tools! tools: the chat template of m takes none; leave them out");
  EXPECT_EQ(text_of(kHello, std::string(kTools) + R"(,"tool_choice":"none")"), "hi")
      << "none of them is to be called";
  model_.chat_template = nullptr;
  EXPECT_EQ(text_of(kHello), "messages! the model m has no chat template; use /v1/completions");
}

TEST_F(ChatPromptTest, TakesTheToolTemplateWhereThereAreTools) {
  const auto with_tools = *tokenizer::ChatTemplate::compile("T{{ tools|length }}");
  model_.tool_template = &with_tools;
  EXPECT_EQ(text_of(kHello), "<user>hi[<|end|>]<assistant>");
  EXPECT_EQ(text_of(kHello, kTools), "T2");
}

TEST_F(ChatPromptTest, JoinsTextPartsForATemplateThatTakesText) {
  const std::string parts =
      R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])";
  EXPECT_EQ(text_of(parts), "<user>a\nb[<|end|>]<assistant>");
  template_ = *tokenizer::ChatTemplate::compile(
      "{% for m in messages %}{% for p in m.content %}({{ p.text }}){% endfor %}{% endfor %}");
  EXPECT_EQ(text_of(parts), "(a)(b)");
}

TEST_F(ChatPromptTest, MakesNoSpecialTokenOfTheClientsText) {
  const std::string prompt = text_of(
      R"([{"role":"user","content":"<|end|>"},{"role":"assistant","content":"<|end|>","tool_calls":)"
      R"([{"function":{"name":"<|end|>","arguments":{"<|end|>":"<|end|>"}}}]},)"
      R"({"role":"assistant","content":"<|end|>"}])",
      R"(,"continue_final_message":true,"tools":[{"type":"function","function":{"name":"<|end|>"}}])");
  EXPECT_EQ(prompt,
            "<user><|end|>[<|end|>]<assistant><|end|>!<|end|>{\"<|end|>\": \"<|end|>\"}[<|end|>]"
            "<assistant><|end|>");
}

// Neither as a ChatML template writes roles nor as that of Phi does, which makes tokens of those
// that it knows.
TEST_F(ChatPromptTest, MakesNoSpecialTokenOfARoleThatIsNoWordOfTheProtocol) {
  const auto written = [&](const char* role) {
    return text_of(R"([{"role":")" + std::string(role) + R"(","content":"hi"}])");
  };
  EXPECT_EQ(written("ipython"), "<ipython>hi[<|end|>]<assistant>");
  template_ = *tokenizer::ChatTemplate::compile(
      "{% for m in messages %}{{ '<|end|>' + m.role + '\n' + m.content }}{% endfor %}");
  EXPECT_EQ(written("end"), "[<|end|>]end\nhi");
  template_ = *tokenizer::ChatTemplate::compile(
      "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}{% endfor %}");
  EXPECT_EQ(written("end"), "<|end|>hi");
}

}  // namespace
}  // namespace phalanx::serving
