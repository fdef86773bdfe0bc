// SPDX-License-Identifier: Apache-2.0
#include "phalanx/serving/offline_run.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "byte_tokenizer.h"
#include "support/manual_clock.h"

namespace phalanx::serving {
namespace {

using std::chrono::milliseconds;

// A desk that gives places when the test says so, and remembers what it was asked for.
struct FakeDesk final : RequestDesk {
  struct Begun {
    RequestSummary summary;
    std::vector<GenerationRequest> prompts;
    std::shared_ptr<RequestSink> sink;
  };
  void admit(const wire::Admit& wish, Answered answered) override {
    asking.emplace_back(wish, std::move(answered));
  }
  void begin(const wire::RequestKey& key,
             const RequestSummary& summary,
             std::vector<GenerationRequest> prompts,
             std::shared_ptr<RequestSink> sink) override {
    begun.emplace(key, Begun{summary, std::move(prompts), std::move(sink)});
  }
  void stop(const wire::StopChoice&) override {}
  void end(const wire::End& ending) override { ended.push_back(ending); }

  void answer_all(const Status& status = ok()) {
    while (!asking.empty()) {
      const auto next = std::move(asking.front());
      asking.erase(asking.begin());
      next.second(status);
    }
  }

  std::vector<std::pair<wire::Admit, Answered>> asking;
  std::map<wire::RequestKey, Begun> begun;
  std::vector<wire::End> ended;
};

constexpr wire::RequestKey kFirst{wire::kFirstPromptConnection, 1};
constexpr wire::RequestKey kSecond{wire::kFirstPromptConnection + 1, 1};

class OfflineRunTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(tokenizer_, nullptr);
    model_.name = "m";
    model_.vocab = 257;
    model_.max_model_len = 64;
    model_.tokenizer = tokenizer_.get();
    options_.how = {.apply_chat_template = true, .max_tokens = 8, .is_seeded = true, .seed = 5};
  }

  OfflineRun& start(std::vector<std::string> prompts) {
    options_.prompts = std::move(prompts);
    run_.emplace(options_,
                 model_,
                 desk_,
                 clock_,
                 OfflineCalls{[this](const std::string& output) { output_ += output; },
                              [this](const Status& status) { ends_.push_back(status); }});
    run_->start();
    return *run_;
  }

  void token(const wire::RequestKey& key, std::uint32_t position, char byte, bool last = false) {
    wire::FrontEvent event;
    event.key = key;
    event.position = position;
    event.token = byte;
    event.finish = last ? step::FinishReason::kLength : step::FinishReason::kNone;
    desk_.begun.at(key).sink->on_token(event);
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer_ = make_byte_tokenizer();
  ServedModel model_;
  FakeDesk desk_;
  test::ManualClock clock_;
  OfflineOptions options_;
  std::optional<OfflineRun> run_;
  std::string output_;
  std::vector<Status> ends_;
};

TEST_F(OfflineRunTest, PutsOutTextAndFiguresInTheOrderOfThePrompts) {
  start({"ab", "c"});
  desk_.answer_all();
  ASSERT_EQ(desk_.begun.size(), 2U);
  EXPECT_EQ(desk_.begun.at(kFirst).prompts.at(0).generation.prompt_ids,
            (std::vector<TokenId>{'a', 'b'}));
  EXPECT_EQ(desk_.begun.at(kFirst).prompts.at(0).generation.sampling.seed, 5U);
  EXPECT_EQ(desk_.begun.at(kSecond).prompts.at(0).generation.stop.max_tokens, 8U);
  clock_.advance(milliseconds(10));
  token(kSecond, 0, 'z', true);
  EXPECT_EQ(output_, "") << "the first prompt is not answered";
  token(kFirst, 0, 'x');
  clock_.advance(milliseconds(3));
  token(kFirst, 1, 'y', true);
  EXPECT_EQ(output_,
            "prompt         ab\n"
            "text           xy\n"
            "token ids      [120, 121]\n"
            "finish_reason  length\n"
            "tokens         2 prompt, 2 generated\n"
            "TTFT           10.0 ms\n"
            "ms per token   3.0\n"
            "\n"
            "prompt         c\n"
            "text           z\n"
            "token ids      [122]\n"
            "finish_reason  length\n"
            "tokens         1 prompt, 1 generated\n"
            "TTFT           10.0 ms\n"
            "ms per token   0.0\n"
            "\n"
            "overall        3 tokens in 0.013 s, 230.8 tok/s\n");
  ASSERT_EQ(ends_.size(), 1U);
  EXPECT_TRUE(ends_[0]);
  ASSERT_EQ(desk_.ended.size(), 2U);
  EXPECT_EQ(desk_.ended[0].key, kSecond);
  EXPECT_EQ(desk_.ended[0].outcome, "length");
}

TEST_F(OfflineRunTest, APromptThatCannotBeServedEndsItByName) {
  start({std::string(70, 'a'), "b"});
  ASSERT_EQ(ends_.size(), 1U);
  ASSERT_FALSE(ends_[0]);
  EXPECT_EQ(ends_[0].error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(desk_.asking.empty());
}

TEST_F(OfflineRunTest, TheFirstErrorEndsItOnce) {
  start({"a", "b"});
  desk_.answer_all();
  desk_.begun.at(kSecond).sink->on_error(unavailable("no replica can serve"));
  token(kFirst, 0, 'x', true);
  desk_.begun.at(kFirst).sink->on_error(unavailable("another one"));
  ASSERT_EQ(ends_.size(), 1U);
  EXPECT_EQ(ends_[0].error().message(), "no replica can serve");
  EXPECT_EQ(output_, "");
}

TEST_F(OfflineRunTest, WithoutAPlaceNothingBegins) {
  start({"a", "b"});
  desk_.answer_all(unavailable("the server is shutting down"));
  EXPECT_TRUE(desk_.begun.empty());
  ASSERT_EQ(ends_.size(), 1U);
  EXPECT_FALSE(ends_[0]);
}

}  // namespace
}  // namespace phalanx::serving
