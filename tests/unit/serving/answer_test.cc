// SPDX-License-Identifier: Apache-2.0
#include "answer.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/openai/stream_event.h"

#include "byte_tokenizer.h"
#include "fake_desk.h"

namespace phalanx::serving {
namespace {

class CountingExchange final : public http::Exchange {
 public:
  explicit CountingExchange(std::size_t* held, std::optional<http::Resumed> left = std::nullopt)
      : held_(held), left_(left) {}
  CountingExchange(const CountingExchange&) = delete;
  CountingExchange& operator=(const CountingExchange&) = delete;

  void respond(http::Response /*response*/) override { ++responses; }
  void start_stream(int /*status*/, http::Headers /*headers*/) override { ++streams; }
  void write(std::string data) override { events.push_back(std::move(data)); }
  void finish() override {}
  [[nodiscard]] const http::Resumed* resumed() const override { return left_ ? &*left_ : nullptr; }
  void note(const http::HandlerNotes& /*notes*/) override {}
  void hold(std::size_t bytes) override { *held_ += bytes; }
  [[nodiscard]] std::size_t pending_bytes() const override { return 0; }
  [[nodiscard]] bool open() const override { return true; }
  void on_close(std::function<void()> /*callback*/) override {}

  int responses = 0;
  int streams = 0;
  std::vector<std::string> events;

 private:
  std::size_t* held_;
  std::optional<http::Resumed> left_;
};

// What an answer borrows.
struct Served {
  Served() { model.tokenizer = tokenizer.get(); }
  [[nodiscard]] AnswerContext context(
      std::function<bool(bool, std::function<void()>, std::function<void()>)> run_away) {
    return {model, desk, loop, std::chrono::seconds(10), std::move(run_away), {}};
  }

  decltype(make_byte_tokenizer()) tokenizer = make_byte_tokenizer();
  ServedModel model;
  FakeDesk desk;
  os::EventLoop loop;
  std::size_t held = 0;
};

// Bytes that an answer of 100 tokens is said to keep; the first `history` of them were written
// before.
std::size_t held_by(bool stream, bool logprobs, std::uint32_t history = 0) {
  Served served;
  const AnswerContext context = served.context({});
  AnswerOptions options;
  options.stream = stream;
  options.logprobs = logprobs;
  const auto answer = std::make_shared<Answer>(context,
                                               options,
                                               std::make_shared<CountingExchange>(&served.held),
                                               Place(served.desk, {1, 1}));
  std::vector<GenerationRequest> prompts(1);
  prompts[0].generation.choices = 1;
  answer->start({}, std::move(prompts));
  if (history > 0) {
    answer->on_history(
        {{1, 1}, std::vector<std::uint32_t>(history, 0), std::vector<TokenId>(history, 'a'), {}});
  }
  for (std::uint32_t position = history; position < 100; ++position) {
    wire::FrontEvent token;
    token.key = {1, 1};
    token.position = position;
    token.token = 'a';
    if (logprobs) {
      token.logprob = -1.0F;
      token.top_logprobs.resize(5, {.token = 'a', .logprob = -1.0F});
    }
    answer->on_token(token);
  }
  return served.held;
}

std::vector<GenerationRequest> two_choices_of_three_tokens() {
  std::vector<GenerationRequest> prompts(1);
  prompts[0].generation.choices = 2;
  prompts[0].generation.prompt_ids = {'a', 'b', 'c'};
  return prompts;
}

TEST(Answer, CountsWhatIsKeptOfItsTokens) {
  const std::size_t stream = held_by(true, false);
  EXPECT_GE(stream, 100U * 16) << "as the leader keeps them";
  EXPECT_GE(held_by(true, true), stream + 100U * 5 * sizeof(step::TokenLogprob));
  EXPECT_EQ(held_by(true, false, 60), stream) << "also of those that were written before";
}

TEST(Answer, CountsTheTextOfAWholeOneUntilItIsComplete) {
  EXPECT_EQ(held_by(false, false), held_by(true, false) + 100);
  EXPECT_GE(held_by(false, true),
            held_by(true, true) + 100U * 6 * sizeof(openai::TokenLogprobs) / 2);
}

// Clients that count by it read it from each, also from those that only name the role.
TEST(Answer, EveryEventHasTheUsageThatIsAskedFor) {
  Served served;
  AnswerOptions options;
  options.stream = true;
  options.include_usage = true;
  options.continuous_usage = true;
  const auto exchange = std::make_shared<CountingExchange>(&served.held);
  const auto answer =
      std::make_shared<Answer>(served.context({}), options, exchange, Place(served.desk, {1, 1}));
  std::vector<GenerationRequest> prompts = two_choices_of_three_tokens();
  answer->start({}, std::move(prompts));
  std::vector<std::uint64_t> told;
  for (std::uint32_t choice = 0; choice < 2; ++choice) {
    wire::FrontEvent token;
    token.key = {1, 1};
    token.choice = choice;
    token.token = 'a';
    token.finish = step::FinishReason::kLength;
    answer->on_token(token);
  }
  ASSERT_EQ(exchange->events.size(), 6U) << "two roles, two tokens, the usage, the end";
  for (std::size_t i = 0; i < 5; ++i) {
    const std::string data = exchange->events[i].substr(std::string("data: ").size());
    const auto event = openai::parse_stream_event(data);
    ASSERT_TRUE(event && event->usage) << data;
    EXPECT_EQ(event->usage->prompt_tokens, 3U) << data;
    told.push_back(event->usage->completion_tokens);
  }
  EXPECT_EQ(told, (std::vector<std::uint64_t>{0, 0, 1, 2, 2}));
}

// What another front has written of it is not looked at where nothing depends on it; what is
// written behind it is the same.
TEST(Answer, GoesOnBehindWhatWasWritten) {
  for (const bool looks_at_all : {false, true}) {
    Served served;
    AnswerOptions options;
    options.stream = true;
    options.include_usage = true;
    options.notes.told = 4;
    const auto exchange = std::make_shared<CountingExchange>(&served.held);
    const auto answer =
        std::make_shared<Answer>(served.context({}), options, exchange, Place(served.desk, {1, 1}));
    std::vector<GenerationRequest> prompts = two_choices_of_three_tokens();
    if (looks_at_all) {
      prompts[0].text.stop_strings = {"no such"};
    }
    answer->start({}, std::move(prompts));
    const std::uint32_t open = wire::HistoryMark{}.packed();
    const std::uint32_t ended =
        wire::HistoryMark{.choice = 1, .finish = step::FinishReason::kLength}.packed();
    answer->on_history({{1, 1}, {open, open, ended, open}, {'a', 0xE2, 'b', 0x82}, {2}});
    EXPECT_TRUE(exchange->events.empty());
    wire::FrontEvent token;
    token.key = {1, 1};
    token.position = 3;
    token.token = 0xAC;
    token.finish = step::FinishReason::kLength;
    answer->on_token(token);
    ASSERT_EQ(exchange->events.size(), 5U) << "two roles, the token, the usage, the end";
    EXPECT_NE(exchange->events[2].find("\u20ac"), std::string::npos);
    const auto usage =
        openai::parse_stream_event(exchange->events[3].substr(std::string("data: ").size()));
    ASSERT_TRUE(usage && usage->usage);
    EXPECT_EQ(usage->usage->completion_tokens, 5U);
    EXPECT_NE(exchange->events[3].find("\"cached_tokens\":2"), std::string::npos);
  }
}

// A stream of two choices that has waited for its first token for longer than a client should.
struct WaitingStream {
  explicit WaitingStream(AnswerOptions options = {}) {
    options.stream = true;
    AnswerContext context = served.context({});
    context.first_comment = std::chrono::nanoseconds(1);
    answer = std::make_shared<Answer>(context, options, exchange, Place(served.desk, {1, 1}));
    answer->start({}, two_choices_of_three_tokens());
    const auto end =
        served.loop.call_after(std::chrono::milliseconds(1), [this] { served.loop.stop(); });
    served.loop.run();
  }

  void hear_token(std::uint32_t choice) const {
    wire::FrontEvent token;
    token.key = {1, 1};
    token.choice = choice;
    token.token = 'a';
    token.finish = step::FinishReason::kLength;
    answer->on_token(token);
  }

  Served served;
  std::shared_ptr<CountingExchange> exchange = std::make_shared<CountingExchange>(&served.held);
  std::shared_ptr<Answer> answer;
};

std::size_t count_of(const std::vector<std::string>& events, std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(events.begin(), events.end(), [&](const std::string& event) {
        return event.find(text) != std::string::npos;
      }));
}

// Clients that measure take the first event for the first token.
TEST(Answer, AStreamThatWaitsHasNoEventBeforeItsFirstToken) {
  const WaitingStream stream;
  const std::vector<std::string>& events = stream.exchange->events;
  EXPECT_EQ(stream.exchange->streams, 1);
  EXPECT_EQ(events, std::vector<std::string>{": ping\n\n"});
  stream.hear_token(1);
  ASSERT_EQ(events.size(), 4U) << "both roles, the token";
  EXPECT_EQ(count_of(events, "\"role\":\"assistant\""), 2U);
  EXPECT_EQ(events[3].find("\"role\""), std::string::npos);
  stream.hear_token(0);
  EXPECT_EQ(events.size(), 6U) << "the token, the end";
  EXPECT_EQ(count_of(events, "\"role\":\"assistant\""), 2U);
  EXPECT_EQ(stream.exchange->streams, 1);
}

TEST(Answer, AStreamThatWaitsEchoesWithItsFirstToken) {
  AnswerOptions options;
  options.api = openai::Api::kText;
  options.echo = {{"", {"echo of 0", "echo of 1"}}};
  const WaitingStream stream(options);
  EXPECT_EQ(stream.exchange->events.size(), 1U);
  stream.hear_token(0);
  stream.hear_token(1);
  ASSERT_EQ(stream.exchange->events.size(), 6U) << "the comment, echoes, tokens, the end";
  EXPECT_EQ(stream.exchange->events[1], "echo of 0");
  EXPECT_EQ(stream.exchange->events[2], "echo of 1");
}

TEST(Answer, AStreamThatWaitsForNothingHasOnlyTheError) {
  const WaitingStream stream;
  stream.answer->on_error(unavailable("it is over"));
  ASSERT_EQ(stream.exchange->events.size(), 3U) << "the comment, the error, the end";
  EXPECT_NE(stream.exchange->events[1].find("it is over"), std::string::npos);
  EXPECT_EQ(stream.exchange->responses, 0);
}

// What another front has written is known by what it was told, as both are kept at once.
TEST(Answer, TheRoleIsWrittenOnceWhoeverHasBegunTheStream) {
  for (const std::uint64_t told : {0U, 1U}) {
    Served served;
    AnswerOptions options;
    options.stream = true;
    options.notes.told = told;
    const auto exchange = std::make_shared<CountingExchange>(
        &served.held, http::Resumed{to_handler_notes(options.notes), true});
    const auto answer =
        std::make_shared<Answer>(served.context({}), options, exchange, Place(served.desk, {1, 1}));
    answer->start({}, two_choices_of_three_tokens());
    if (told == 1) {
      answer->on_history({{1, 1}, {wire::HistoryMark{}.packed()}, {'a'}, {0}});
    }
    wire::FrontEvent token;
    token.key = {1, 1};
    token.position = static_cast<std::uint32_t>(told);
    token.token = 'a';
    answer->on_token(token);
    EXPECT_EQ(exchange->streams, 0);
    EXPECT_EQ(exchange->events.size(), told == 0 ? 3U : 1U);
    EXPECT_EQ(count_of(exchange->events, "\"role\":\"assistant\""), told == 0 ? 2U : 0U);
  }
}

// Of more than is written on the loop. What comes behind its last token finds its choices with
// another thread, or gone.
TEST(Answer, ALargeOneIsWrittenOnceWhateverStillComes) {
  Served served;
  std::vector<std::pair<std::function<void()>, std::function<void()>>> away;
  const AnswerContext context =
      served.context([&](bool, std::function<void()> work, std::function<void()> done) {
        away.emplace_back(std::move(work), std::move(done));
        return true;
      });
  const auto exchange = std::make_shared<CountingExchange>(&served.held);
  const auto answer =
      std::make_shared<Answer>(context, AnswerOptions{}, exchange, Place(served.desk, {1, 1}));
  std::vector<GenerationRequest> prompts(1);
  prompts[0].generation.choices = 1;
  answer->start({}, std::move(prompts));
  constexpr std::uint32_t kTokens = 20'000;
  const auto feed = [&](std::uint32_t position, step::FinishReason finish) {
    wire::FrontEvent token;
    token.key = {1, 1};
    token.position = position;
    token.token = 'a';
    token.finish = finish;
    answer->on_token(token);
  };
  const auto feed_late = [&] {
    feed(kTokens, step::FinishReason::kNone);
    answer->on_history({{1, 1}, {0, 0}, {'a', 'a'}, {}});
  };
  for (std::uint32_t position = 0; position < kTokens; ++position) {
    feed(position,
         position + 1 == kTokens ? step::FinishReason::kLength : step::FinishReason::kNone);
  }
  ASSERT_EQ(away.size(), 1U);
  std::thread other(away[0].first);
  for (int i = 0; i < 1000; ++i) {
    feed_late();
  }
  other.join();
  feed_late();
  away[0].second();
  feed_late();
  EXPECT_EQ(away.size(), 1U);
  EXPECT_EQ(exchange->responses, 1);
}

}  // namespace
}  // namespace phalanx::serving
