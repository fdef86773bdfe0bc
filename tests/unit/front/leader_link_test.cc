// SPDX-License-Identifier: Apache-2.0
#include "phalanx/front/leader_link.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

#include "phalanx/base/thread_time.h"
#include "phalanx/step/limits.h"
#include "phalanx/wire/codec.h"
#include "phalanx/wire/limits.h"

namespace phalanx::front {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr wire::RequestKey kKey{3, 1};
constexpr wire::RequestKey kOther{4, 1};

struct FakeSink final : serving::RequestSink {
  void on_history(const wire::History& history) override { histories.push_back(history); }
  std::vector<wire::History> histories;
  void on_token(const wire::FrontEvent& token) override {
    tokens.push_back(token.token);
    if (heard) {
      heard();
    }
  }
  void on_error(const Error& error) override { errors.push_back(error); }

  std::vector<TokenId> tokens;
  std::vector<Error> errors;
  std::function<void()> heard;  // with each token
};

// The tokens first … first + count - 1, each at its own position.
wire::FrontEvents tokens_of(const wire::RequestKey& key, std::uint32_t first, std::uint32_t count) {
  wire::FrontEvents record;
  for (std::uint32_t i = first; i < first + count; ++i) {
    record.events.push_back({.key = key, .position = i, .token = static_cast<TokenId>(i)});
  }
  return record;
}

std::vector<TokenId> numbers(std::size_t count) {
  std::vector<TokenId> ids(count);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

serving::GenerationRequest prompt_of(std::size_t tokens) {
  serving::GenerationRequest request;
  request.generation.prompt_ids = numbers(tokens);
  return request;
}

// A link on a loop that the test runs until something has come, and the leader's end of it.
class LeaderLinkTest : public testing::Test {
 protected:
  struct Connected {
    wire::Connect connection;
    os::UniqueFd socket;
  };

  void SetUp() override {
    auto pair = os::ControlSocket::make_pair();
    ASSERT_TRUE(pair);
    std::tie(leader_, socket_) = *std::move(pair);
    LinkCalls calls;
    calls.on_connect =
        [this](const wire::Connect& connection, os::UniqueFd socket, const os::UniqueFd& /*left*/) {
          connected_.push_back({connection, std::move(socket)});
        };
    calls.on_drain = [this](bool answers_end) { drains_.push_back(answers_end); };
    calls.on_broken = [this](const Error& error) { broken_.push_back(error); };
    link_.emplace(loop_, socket_, std::move(calls));
    ASSERT_TRUE(link_->start());
  }

  // What the leader sends.
  void tell(const wire::LeaderToFront& record, std::span<const int> fds = {}) {
    tell_bytes(wire::encode(record), fds);
  }
  void tell_bytes(const std::string& bytes, std::span<const int> fds = {}) {
    const auto sent = leader_.send(bytes, fds);
    ASSERT_TRUE(sent);
    EXPECT_EQ(*sent, os::ControlSent::kQueued);
  }

  // The next record that the leader has got, if there is one.
  std::optional<wire::FrontToLeader> hear() {
    auto received = leader_.receive();
    EXPECT_TRUE(received);
    const auto* const message = received ? std::get_if<os::ControlMessage>(&*received) : nullptr;
    if (message == nullptr) {
      return std::nullopt;
    }
    auto record = wire::decode_front_to_leader(message->bytes);
    EXPECT_TRUE(record) << record.error().to_string();
    return record ? std::optional(*std::move(record)) : std::nullopt;
  }

  // The same, which must be of that kind.
  template <typename Record>
  Record hear_a() {
    const auto record = hear();
    const Record* const expected = record ? std::get_if<Record>(&*record) : nullptr;
    EXPECT_NE(expected, nullptr) << "another record, or none";
    return expected != nullptr ? *expected : Record{};
  }

  // Starts a request of one small prompt; what the leader hears of it is left out.
  std::shared_ptr<FakeSink> begin(const wire::RequestKey& key = kKey) {
    auto sink = std::make_shared<FakeSink>();
    link_->begin(key, {}, {prompt_of(1)}, sink);
    hear_a<wire::Begin>();
    hear_a<wire::PromptPart>();
    hear_a<wire::Generate>();
    return sink;
  }

  // Runs the loop until `condition` holds.
  template <typename Condition>
  void run_until(Condition condition) {
    const auto guard = loop_.call_after(seconds(10), [this] {
      ADD_FAILURE() << "nothing came";
      loop_.stop();
    });
    const auto look = loop_.call_every(milliseconds(1), [&] {
      if (condition()) {
        loop_.stop();
      }
    });
    loop_.run();
  }

  // Lets the link read whatever has come: it reads in order, so a drain that is told is the last.
  void run_to_here() {
    const std::size_t before = drains_.size();
    tell(wire::Drain{});
    run_until([&] { return drains_.size() > before; });
  }

  // Lets everybody have some turns of the loop; for what is not expected.
  void run_turns(int turns = 20) {
    const std::function<void()> turn = [&] {
      if (turns-- > 0) {
        loop_.post(turn);
      } else {
        loop_.stop();
      }
    };
    loop_.post(turn);
    loop_.run();
  }

  os::EventLoop loop_;
  os::ControlSocket leader_;
  os::ControlSocket socket_;
  std::vector<Connected> connected_;
  std::vector<bool> drains_;
  std::vector<Error> broken_;
  std::optional<LeaderLink> link_;
};

TEST_F(LeaderLinkTest, PromptsOfACommandLineComeInPartsAndInOrder) {
  std::vector<wire::PromptText> parts;
  std::vector<wire::RunPrompts> runs;
  LinkCalls calls;
  calls.on_prompt = [&](wire::PromptText part) { parts.push_back(std::move(part)); };
  calls.on_run_prompts = [&](const wire::RunPrompts& how) { runs.push_back(how); };
  calls.on_broken = [this](const Error& error) { broken_.push_back(error); };
  link_.reset();
  link_.emplace(loop_, socket_, std::move(calls));
  ASSERT_TRUE(link_->start());
  tell(wire::PromptText{"count ", false});
  tell(wire::PromptText{"from 3", true});
  tell(wire::RunPrompts{.max_tokens = 7});
  run_until([&] { return !runs.empty(); });
  EXPECT_EQ(parts, (std::vector<wire::PromptText>{{"count ", false}, {"from 3", true}}));
  EXPECT_EQ(runs.at(0).max_tokens, 7U);
  EXPECT_TRUE(broken_.empty());
}

TEST_F(LeaderLinkTest, PromptsThatNobodyAnswersBreakIt) {
  tell(wire::PromptText{"count ", false});
  run_until([&] { return !broken_.empty(); });
  EXPECT_EQ(broken_.size(), 1U);
}

TEST_F(LeaderLinkTest, AnAdmitIsAnsweredOnce) {
  std::vector<Status> answers;
  const wire::Admit wish{kKey, "/v1/completions", 17, true};
  link_->admit(wish, [&](Status answer) { answers.push_back(std::move(answer)); });
  EXPECT_TRUE(answers.empty());
  EXPECT_EQ(hear_a<wire::Admit>(), wish);
  tell(wire::Admitted{kKey, 0, ""});
  run_to_here();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_TRUE(answers[0]);
  tell(wire::Admitted{kKey, 0, ""});
  run_until([&] { return !broken_.empty(); });
  EXPECT_EQ(answers.size(), 1U) << "nobody asks any more";
}

TEST_F(LeaderLinkTest, ARefusalOfAPlaceSaysWhy) {
  std::vector<Status> answers;
  std::vector<Status> answers_of_other;
  link_->admit({kKey, "/", 1, true}, [&](Status answer) { answers.push_back(std::move(answer)); });
  link_->admit({kOther, "/", 1, true},
               [&](Status answer) { answers_of_other.push_back(std::move(answer)); });
  tell(wire::Admitted{kOther, 0, ""});
  tell(wire::Admitted{kKey, static_cast<std::uint32_t>(Code::kResourceExhausted), "it is full"});
  run_to_here();
  ASSERT_EQ(answers.size(), 1U);
  ASSERT_EQ(answers_of_other.size(), 1U);
  EXPECT_TRUE(answers_of_other[0]);
  ASSERT_FALSE(answers[0]);
  EXPECT_EQ(answers[0].error(), resource_exhausted("it is full"));
}

TEST_F(LeaderLinkTest, BeginsWithAllPromptsInPartsThatFit) {
  std::vector<serving::GenerationRequest> prompts;
  prompts.push_back(prompt_of(2 * wire::kMaxPromptPart + 1));
  prompts.back().generation.choices = 3;
  prompts.back().generation.sampling.seed = 41;
  prompts.back().generation.sampling.logit_bias = {{5, -1.0F}};
  prompts.back().generation.stop = {.max_tokens = 9, .stop_token_ids = {2, 6}};
  prompts.back().generation.cache_salt = "salt";
  prompts.push_back(prompt_of(wire::kMaxPromptPart));
  prompts.push_back(prompt_of(1));
  const serving::RequestSummary summary{"id-1", 5, true, std::chrono::microseconds(70)};
  link_->begin(kKey, summary, std::move(prompts), std::make_shared<FakeSink>());

  EXPECT_EQ(hear_a<wire::Begin>(), (wire::Begin{kKey, "id-1", 5, 3, true, 70}));
  std::vector<TokenId> ids;
  for (const std::size_t size : {wire::kMaxPromptPart, wire::kMaxPromptPart, std::size_t{1}}) {
    const auto part = hear_a<wire::PromptPart>();
    EXPECT_EQ(part.key, kKey);
    EXPECT_EQ(part.ids.size(), size);
    ids.insert(ids.end(), part.ids.begin(), part.ids.end());
  }
  EXPECT_EQ(ids, numbers(2 * wire::kMaxPromptPart + 1));
  const auto first = hear_a<wire::Generate>();
  EXPECT_EQ(first.key, kKey);
  EXPECT_EQ(first.choices, 3U);
  EXPECT_EQ(first.sampling.seed, 41U);
  EXPECT_EQ(first.sampling.logit_bias.size(), 1U);
  EXPECT_EQ(first.stop, (step::StopParams{.max_tokens = 9, .stop_token_ids = {2, 6}}));
  EXPECT_EQ(first.cache_salt, "salt");
  EXPECT_EQ(hear_a<wire::PromptPart>().ids, numbers(wire::kMaxPromptPart));
  EXPECT_EQ(hear_a<wire::Generate>().choices, 1U);
  EXPECT_EQ(hear_a<wire::PromptPart>().ids, numbers(1));
  EXPECT_EQ(hear_a<wire::Generate>().cache_salt, "");
  EXPECT_FALSE(hear()) << "there is no more to say";
}

TEST_F(LeaderLinkTest, StopsAndEndsAreSent) {
  link_->stop({kKey, 1, 2, 3});
  link_->end({kKey, "stop", "", 200});
  EXPECT_EQ(hear_a<wire::StopChoice>(), (wire::StopChoice{kKey, 1, 2, 3}));
  EXPECT_EQ(hear_a<wire::End>(), (wire::End{kKey, "stop", "", 200}));
}

TEST_F(LeaderLinkTest, TokensReachTheSinkOfTheirRequestInOrder) {
  const auto sink = begin();
  const auto other = begin(kOther);
  for (std::uint32_t i = 0; i < 10; ++i) {
    tell(tokens_of(kKey, i * 100, 100));
    tell(tokens_of(kOther, i, 1));
  }
  run_to_here();
  EXPECT_EQ(sink->tokens, numbers(1000));
  EXPECT_EQ(other->tokens, numbers(10));
  EXPECT_TRUE(broken_.empty());
}

TEST_F(LeaderLinkTest, OtherWorkOfTheLoopHasTurnsBetweenManyTokens) {
  constexpr std::size_t kTokens = 3 * LeaderLink::kEventsPerTurn + 10;
  const auto sink = begin();
  std::vector<std::size_t> seen;  // by other work: how many tokens were told
  std::function<void()> other_work = [&] {
    seen.push_back(sink->tokens.size());
    if (sink->tokens.size() < kTokens) {
      loop_.post(other_work);
    }
  };
  sink->heard = [&] {
    if (sink->tokens.size() == 1) {
      loop_.post(other_work);
    }
  };
  tell(tokens_of(kKey, 0, kTokens));
  run_until([&] { return sink->tokens.size() == kTokens; });
  run_turns();
  EXPECT_EQ(sink->tokens, numbers(kTokens));
  ASSERT_GE(seen.size(), 4U);
  std::size_t before = 0;
  for (const std::size_t now : seen) {
    EXPECT_LE(now - before, LeaderLink::kEventsPerTurn);
    before = now;
  }
}

// The end of an answer writes all of it.
TEST_F(LeaderLinkTest, OtherWorkOfTheLoopHasTurnsBetweenTokensThatTakeLong) {
  const auto sink = begin();
  int turns = 0;
  std::function<void()> other_work = [&] {
    ++turns;
    loop_.post(other_work);
  };
  sink->heard = [&] {
    if (sink->tokens.size() == 1) {
      loop_.post(other_work);
    }
    const CpuTimeLimit work(LeaderLink::kTurnTime);
    while (!work.passed()) {
    }
    if (sink->tokens.size() == 10) {
      loop_.stop();
    }
  };
  tell(tokens_of(kKey, 0, 10));
  loop_.run();
  EXPECT_GE(turns, 8);
}

TEST_F(LeaderLinkTest, NothingElseIsReadBeforeTheTokensAreTold) {
  constexpr std::size_t kTokens = 3 * LeaderLink::kEventsPerTurn;
  const auto sink = begin();
  std::vector<Status> answers;
  std::size_t told_before = 0;
  link_->admit({kOther, "/", 1, true}, [&](Status answer) {
    told_before = sink->tokens.size();
    answers.push_back(std::move(answer));
  });
  tell(tokens_of(kKey, 0, kTokens));
  tell(wire::Admitted{kOther, 0, ""});
  run_until([&] { return !answers.empty(); });
  EXPECT_EQ(told_before, kTokens);
}

TEST_F(LeaderLinkTest, NothingIsToldOfARequestThatHasEnded) {
  const auto sink = begin();
  const auto other = begin(kOther);
  sink->heard = [&] {
    if (sink->tokens.size() == 3) {
      link_->end({kKey, "stop", "", 200});
    }
  };
  tell(tokens_of(kKey, 0, 5));
  tell(tokens_of(kKey, 5, 5));
  wire::FrontEvent error{.key = kKey, .finish = step::FinishReason::kError};
  error.error_code = static_cast<std::uint32_t>(Code::kInternal);
  tell(wire::FrontEvents{{error}});
  tell(tokens_of(kOther, 0, 2));
  run_to_here();
  EXPECT_EQ(sink->tokens, numbers(3));
  EXPECT_TRUE(sink->errors.empty());
  EXPECT_EQ(other->tokens, numbers(2));
  EXPECT_EQ(sink.use_count(), 1) << "the link keeps nobody who has ended";
  EXPECT_TRUE(broken_.empty()) << "the leader could not know";
}

TEST_F(LeaderLinkTest, AnErrorIsToldWithItsCode) {
  const auto sink = begin();
  wire::FrontEvents record = tokens_of(kKey, 0, 2);
  record.events.push_back({.key = kKey, .finish = step::FinishReason::kError});
  record.events.back().error_code = static_cast<std::uint32_t>(Code::kPoisoned);
  record.events.back().error_message = "it ends everybody";
  tell(record);
  run_to_here();
  EXPECT_EQ(sink->tokens, numbers(2));
  EXPECT_EQ(sink->errors, std::vector<Error>{Error(Code::kPoisoned, "it ends everybody")});
}

TEST_F(LeaderLinkTest, AReportMayComeInParts) {
  std::vector<std::pair<int, std::string>> told;
  const auto keep = [&](int status, std::string text) {
    told.emplace_back(status, std::move(text));
  };
  link_->query(wire::QueryKind::kMetrics, keep);
  link_->query(wire::QueryKind::kReady, keep);
  const auto metrics = hear_a<wire::Query>();
  const auto ready = hear_a<wire::Query>();
  EXPECT_EQ(metrics.kind, wire::QueryKind::kMetrics);
  EXPECT_EQ(ready.kind, wire::QueryKind::kReady);
  EXPECT_NE(metrics.query, ready.query);
  tell(wire::Report{ready.query, 503, "loading", true});
  tell(wire::Report{metrics.query, 200, "a ", false});
  tell(wire::Report{metrics.query, 200, "b ", false});
  run_to_here();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0], std::pair(503, std::string("loading")));
  tell(wire::Report{metrics.query, 200, "c", true});
  run_to_here();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[1], std::pair(200, std::string("a b c")));
  tell(wire::Report{metrics.query, 200, "d", true});
  run_until([&] { return !broken_.empty(); });
  EXPECT_EQ(told.size(), 2U) << "nobody asks any more";
}

TEST_F(LeaderLinkTest, AConnectionComesWithItsDescriptor) {
  auto pipe = os::make_pipe();
  ASSERT_TRUE(pipe);
  const wire::Connect connect{9, "127.0.0.1:41000", "the server is full"};
  tell(connect, std::array{pipe->write.get()});
  run_to_here();
  ASSERT_EQ(connected_.size(), 1U);
  EXPECT_EQ(connected_[0].connection, connect);
  EXPECT_EQ(::write(connected_[0].socket.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(pipe->read.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
}

TEST_F(LeaderLinkTest, DrainsAreTold) {
  tell(wire::Drain{false});
  tell(wire::Drain{true});
  run_until([&] { return drains_.size() == 2; });
  EXPECT_EQ(drains_, (std::vector<bool>{false, true}));
}

TEST_F(LeaderLinkTest, BreaksAtAConnectionWithoutADescriptor) {
  tell(wire::Connect{9, "127.0.0.1:41000", ""});
  run_until([&] { return !broken_.empty(); });
  EXPECT_EQ(broken_[0].code(), Code::kInvalidArgument);
  EXPECT_TRUE(connected_.empty());
}

TEST_F(LeaderLinkTest, BreaksAtAConnectionWithTwoDescriptors) {
  auto pipe = os::make_pipe();
  ASSERT_TRUE(pipe);
  tell(wire::Connect{9, "127.0.0.1:41000", ""}, std::array{pipe->read.get(), pipe->write.get()});
  run_until([&] { return !broken_.empty(); });
  EXPECT_TRUE(connected_.empty());
}

TEST_F(LeaderLinkTest, BreaksOnceAndReadsAndSendsNothingAfterwards) {
  tell_bytes("this is no record");
  tell_bytes("nor is this");
  tell(wire::Drain{});
  run_until([&] { return !broken_.empty(); });
  run_turns();
  EXPECT_EQ(broken_.size(), 1U);
  EXPECT_TRUE(drains_.empty());
  link_->stop({kKey, 0, 0, 0});
  EXPECT_FALSE(hear());
}

TEST_F(LeaderLinkTest, BreaksAtAPlaceThatNobodyAskedFor) {
  tell(wire::Admitted{kKey, 0, ""});
  run_until([&] { return !broken_.empty(); });
  EXPECT_EQ(broken_[0].code(), Code::kInvalidArgument);
}

TEST_F(LeaderLinkTest, BreaksAtAReportThatNobodyAskedFor) {
  tell(wire::Report{1, 200, "", true});
  run_until([&] { return !broken_.empty(); });
  EXPECT_EQ(broken_[0].code(), Code::kInvalidArgument);
}

TEST_F(LeaderLinkTest, WhatTheLeaderDoesNotReadIsKeptAndComesLaterInOrder) {
  constexpr TokenId kRecords = 200;  // of 64 KiB: more than a socket holds
  for (TokenId i = 0; i < kRecords; ++i) {
    link_->send(wire::PromptPart{kKey, std::vector<TokenId>(wire::kMaxPromptPart, i)});
  }
  link_->end({kKey, "stop", "", 200});
  TokenId heard = 0;
  while (const auto record = hear()) {
    ASSERT_EQ(std::get<wire::PromptPart>(*record).ids.front(), heard++);
  }
  EXPECT_LT(heard, kRecords);
  bool ended = false;
  run_until([&] {
    while (const auto record = hear()) {
      if (const auto* const part = std::get_if<wire::PromptPart>(&*record)) {
        EXPECT_EQ(part->ids.front(), heard++);
      } else {
        ended = std::holds_alternative<wire::End>(*record);
      }
    }
    return ended;
  });
  EXPECT_EQ(heard, kRecords);
  EXPECT_TRUE(broken_.empty());
}

TEST_F(LeaderLinkTest, BreaksWhenTheLeaderTakesNothingForTooLong) {
  constexpr std::size_t kPartBytes = wire::kMaxPromptPart * sizeof(TokenId);
  const wire::PromptPart part{kKey, numbers(wire::kMaxPromptPart)};
  for (std::size_t bytes = 0; bytes < LeaderLink::kMaxUnsentBytes / 2; bytes += kPartBytes) {
    link_->send(part);
  }
  EXPECT_TRUE(broken_.empty());
  for (std::size_t bytes = 0; bytes < LeaderLink::kMaxUnsentBytes; bytes += kPartBytes) {
    link_->send(part);
  }
  ASSERT_EQ(broken_.size(), 1U);
  EXPECT_EQ(broken_[0].code(), Code::kUnavailable);
}

// What was admitted is no sign of a leader that takes nothing, and may be more than it could leave.
TEST_F(LeaderLinkTest, PromptsOfOneRequestMayBeMoreThanMayWait) {
  constexpr std::size_t kPrompts = 17;
  const std::vector<TokenId> ids = numbers(step::kMaxPromptTokens);
  static_assert(kPrompts * step::kMaxPromptTokens * sizeof(TokenId) > LeaderLink::kMaxUnsentBytes);
  std::vector<serving::GenerationRequest> prompts(kPrompts);
  for (std::uint32_t i = 0; i < kPrompts; ++i) {
    prompts[i].generation.prompt_ids = ids;
    prompts[i].generation.choices = i + 1;
  }
  link_->begin(kKey, {}, std::move(prompts), std::make_shared<FakeSink>());
  link_->end({kKey, "stop", "", 200});
  EXPECT_EQ(hear_a<wire::Begin>().prompts, kPrompts);
  std::size_t heard = 0;
  std::uint32_t complete = 0;
  bool ended = false;
  run_until([&] {
    while (const auto record = hear()) {
      if (const auto* const part = std::get_if<wire::PromptPart>(&*record)) {
        EXPECT_TRUE(std::ranges::equal(part->ids, std::span(ids).subspan(heard, part->ids.size())));
        heard += part->ids.size();
      } else if (const auto* const wish = std::get_if<wire::Generate>(&*record)) {
        EXPECT_EQ(std::exchange(heard, 0), ids.size());
        EXPECT_EQ(wish->choices, ++complete);
      } else {
        ended = std::holds_alternative<wire::End>(*record);
      }
    }
    return ended || !broken_.empty();
  });
  EXPECT_EQ(complete, kPrompts);
  EXPECT_TRUE(broken_.empty());
}

// As when the first prompt of a command line is the last to end.
TEST_F(LeaderLinkTest, WhatIsPutOutAtOnceMayBeMoreThanMayWait) {
  std::string all(LeaderLink::kMaxUnsentBytes / 4 * 5 + 7, 'x');
  std::iota(all.begin(), all.end(), '\0');
  link_->put_out(all);
  link_->put_out("the end");
  link_->send(wire::PromptsEnd{});
  EXPECT_TRUE(broken_.empty());
  all += "the end";
  std::string heard;
  bool ended = false;
  run_until([&] {
    while (const auto record = hear()) {
      if (const auto* const part = std::get_if<wire::PromptsOutput>(&*record)) {
        heard += part->text;
      } else {
        ended = std::holds_alternative<wire::PromptsEnd>(*record);
      }
    }
    return ended || !broken_.empty();
  });
  EXPECT_TRUE(heard == all) << heard.size() << " bytes of " << all.size();
  EXPECT_TRUE(broken_.empty());
}

TEST_F(LeaderLinkTest, TellsWhatCameBeforeTheLeaderHungUp) {
  const auto sink = begin();
  tell(tokens_of(kKey, 0, 1000));
  leader_.close();
  run_until([&] { return sink->tokens.size() == 1000; });
  link_->stop({kKey, 0, 0, 0});
  run_turns();
  EXPECT_TRUE(broken_.empty()) << "others notice it";
}

TEST_F(LeaderLinkTest, MayEndWithWorkLeft) {
  const auto sink = begin();
  sink->heard = [&] {
    if (sink->tokens.size() == LeaderLink::kEventsPerTurn) {
      loop_.stop();
    }
  };
  tell(tokens_of(kKey, 0, 1000));
  loop_.run();
  link_.reset();
  run_turns();
  EXPECT_GE(sink->tokens.size(), LeaderLink::kEventsPerTurn);
  EXPECT_LT(sink->tokens.size(), 1000U);
}

}  // namespace
}  // namespace phalanx::front
