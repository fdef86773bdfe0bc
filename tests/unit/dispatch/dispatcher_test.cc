// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/dispatcher.h"

#include <gtest/gtest.h>

#include "support/manual_clock.h"

namespace phalanx::dispatch {
namespace {

constexpr TokenId kEosToken = 256;

struct FakePort final : ReplicaPort {
  wire::Sent send(ReplicaId replica, const wire::LeaderMessage& message) override {
    if (answer == wire::Sent::kQueued) {
      sent.emplace_back(replica, message);
    }
    return answer;
  }

  [[nodiscard]] const wire::Submit& submit(std::size_t index) const {
    return std::get<wire::Submit>(sent.at(index).second);
  }

  wire::Sent answer = wire::Sent::kQueued;
  std::vector<std::pair<ReplicaId, wire::LeaderMessage>> sent;
};

struct FakeSink final : GenerationSink {
  void on_token(const TokenEvent& event) override {
    if (event.token != kEosToken) {
      text += static_cast<char>(event.token);
    }
    if (event.token == stop_at) {
      dispatcher->stop(event.request, event.choice, event.position);
    }
  }
  void on_done() override { ++ends; }
  void on_error(const Error& failure) override {
    ++ends;
    error = failure.message();
  }
  Dispatcher* dispatcher = nullptr;
  TokenId stop_at = -1;
  std::string text;
  std::string error;
  int ends = 0;
};

class DispatcherTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kReplicas = 2;

  DispatcherTest()
      : router_(kReplicas, *make_policy("least_pending_tokens", 1), {}),
        dispatcher_(router_, port_, clock_, {std::chrono::seconds(10), 3}) {
    clock_.advance(std::chrono::hours(1));
    for (std::uint32_t i = 0; i < kReplicas; ++i) {
      set_ready(ReplicaId(i), true);
    }
  }

  void set_ready(ReplicaId replica, bool ready) {
    router_.table().at(replica).ready = ready;
    router_.table().at(replica).numerics_fingerprint = 1;
  }

  void lose(ReplicaId replica) {
    set_ready(replica, false);
    dispatcher_.on_replica_lost(replica);
  }

  RequestId submit(std::shared_ptr<FakeSink> sink, std::uint32_t choices = 1) {
    sink->dispatcher = &dispatcher_;
    Generation request;
    request.prompt_ids = {'p', 'q'};
    request.stop.max_tokens = 5;
    request.stop.stop_token_ids = {kEosToken};
    request.choices = choices;
    return dispatcher_.submit(std::move(request), std::move(sink), {});
  }

  // The replica reports that the attempt it was sent as message `index` produced `token`.
  void produce(std::size_t index,
               std::uint32_t position,
               TokenId token,
               wire::FinishReason finish = wire::FinishReason::kNone) {
    wire::TokenUpdate update;
    update.key = port_.submit(index).key;
    update.position = position;
    update.has_token = true;
    update.token = token;
    update.finish = finish;
    update.to_generate = finish == wire::FinishReason::kNone ? 4 - position : 0;
    dispatcher_.on_token_batch(port_.sent[index].first, {StepId(1), 0, {update}});
  }

  void fail(std::size_t index, Code code) {
    wire::TokenUpdate update;
    update.key = port_.submit(index).key;
    update.finish = wire::FinishReason::kError;
    update.error_code = static_cast<std::uint32_t>(code);
    update.error_message = "broken";
    dispatcher_.on_token_batch(port_.sent[index].first, {StepId(1), 0, {update}});
  }

  void expect_nothing_left() {
    EXPECT_EQ(router_.ledger().pending_total(), Remainder{});
    EXPECT_EQ(dispatcher_.requests(), 0U);
    EXPECT_EQ(dispatcher_.waiting(), 0U);
  }

  test::ManualClock clock_;
  FakePort port_;
  Router router_;
  Dispatcher dispatcher_;
};

TEST_F(DispatcherTest, CarriesARequestFromSubmitToItsEnd) {
  const auto sink = std::make_shared<FakeSink>();
  submit(sink);
  EXPECT_EQ(router_.ledger().pending(ReplicaId(0)), (Remainder{2, 5}));
  produce(0, 0, 'h');
  EXPECT_EQ(router_.ledger().pending(ReplicaId(0)), (Remainder{0, 4}));
  produce(0, 1, 'i');
  produce(0, 2, kEosToken, wire::FinishReason::kStop);
  EXPECT_EQ(sink->text, "hi");
  EXPECT_EQ(sink->ends, 1);
  expect_nothing_left();
}

TEST_F(DispatcherTest, GoesOnAtTheSamePositionWhenTheReplicaDies) {
  const auto sink = std::make_shared<FakeSink>();
  submit(sink);
  produce(0, 0, 'a');
  produce(0, 1, 'b');
  lose(ReplicaId(0));
  ASSERT_EQ(port_.sent.size(), 2U);
  EXPECT_EQ(port_.sent[1].first, ReplicaId(1));
  EXPECT_EQ(port_.submit(1).produced_ids, (std::vector<TokenId>{'a', 'b'}));
  EXPECT_EQ(port_.submit(1).key.attempt, Attempt(2));
  EXPECT_EQ(router_.ledger().pending(ReplicaId(0)), Remainder{});
  EXPECT_EQ(router_.ledger().pending(ReplicaId(1)), (Remainder{4, 3}));

  produce(0, 2, 'X');  // the dead incarnation speaks once more
  produce(1, 2, 'c');
  produce(1, 3, kEosToken, wire::FinishReason::kStop);
  EXPECT_EQ(sink->text, "abc");
  EXPECT_EQ(sink->ends, 1);
  EXPECT_EQ(dispatcher_.counters().stale_updates, 1U);
  expect_nothing_left();
}

TEST_F(DispatcherTest, DropsRepeatedTokensAndRunsAgainAfterAGap) {
  const auto sink = std::make_shared<FakeSink>();
  submit(sink);
  produce(0, 0, 'a');
  produce(0, 0, 'a');
  EXPECT_EQ(sink->text, "a");
  EXPECT_EQ(dispatcher_.counters().repeated_tokens, 1U);
  produce(0, 2, 'c');
  EXPECT_EQ(dispatcher_.counters().gaps, 1U);
  EXPECT_EQ(port_.submit(1).produced_ids, (std::vector<TokenId>{'a'}));
  produce(1, 1, kEosToken, wire::FinishReason::kStop);
  EXPECT_EQ(sink->ends, 1);
  expect_nothing_left();
}

TEST_F(DispatcherTest, WaitsWithoutAReplicaAndEndsInTime) {
  set_ready(ReplicaId(0), false);
  set_ready(ReplicaId(1), false);
  const auto served = std::make_shared<FakeSink>();
  submit(served);
  EXPECT_TRUE(port_.sent.empty());
  clock_.advance(std::chrono::seconds(9));
  dispatcher_.on_tick();
  set_ready(ReplicaId(1), true);
  dispatcher_.on_replica_ready(ReplicaId(1));
  ASSERT_EQ(port_.sent.size(), 1U);
  EXPECT_EQ(port_.submit(0).key.attempt, Attempt(1));
  produce(0, 0, kEosToken, wire::FinishReason::kStop);

  set_ready(ReplicaId(1), false);
  const auto late = std::make_shared<FakeSink>();
  submit(late);
  clock_.advance(std::chrono::seconds(11));
  dispatcher_.on_tick();
  EXPECT_EQ(late->error, "no replica became ready in time; try again later");
  EXPECT_EQ(late->ends, 1);
  expect_nothing_left();
}

TEST_F(DispatcherTest, TellsTheReplicaWhenTheClientLeaves) {
  const auto sink = std::make_shared<FakeSink>();
  const RequestId id = submit(sink, 2);
  dispatcher_.cancel(id);
  ASSERT_EQ(port_.sent.size(), 4U);
  EXPECT_TRUE(std::holds_alternative<wire::Cancel>(port_.sent[2].second));
  EXPECT_TRUE(std::holds_alternative<wire::Cancel>(port_.sent[3].second));
  produce(0, 0, 'a');
  EXPECT_EQ(sink->text, "");
  EXPECT_EQ(sink->ends, 0);
  expect_nothing_left();
}

TEST_F(DispatcherTest, AStopOfTheSinkEndsTheReplicasWorkToo) {
  const auto sink = std::make_shared<FakeSink>();
  sink->stop_at = 'b';
  submit(sink);
  produce(0, 0, 'a');
  produce(0, 1, 'b');
  EXPECT_EQ(sink->text, "ab");
  EXPECT_EQ(sink->ends, 1);
  EXPECT_TRUE(std::holds_alternative<wire::Cancel>(port_.sent.back().second));
  produce(0, 2, 'c');
  EXPECT_EQ(sink->text, "ab");
  expect_nothing_left();
}

TEST_F(DispatcherTest, RefusalsOfTheRequestAreNotTriedAgain) {
  const auto sink = std::make_shared<FakeSink>();
  submit(sink);
  fail(0, Code::kInvalidArgument);
  EXPECT_EQ(sink->error, "broken");
  EXPECT_EQ(port_.sent.size(), 1U);
  expect_nothing_left();
}

TEST_F(DispatcherTest, FailuresOfTheReplicaAreTriedElsewhereButNotForEver) {
  const auto sink = std::make_shared<FakeSink>();
  submit(sink);
  fail(0, Code::kUnavailable);
  EXPECT_EQ(port_.sent[1].first, ReplicaId(1));
  fail(1, Code::kUnavailable);
  EXPECT_EQ(port_.sent[2].first, ReplicaId(0));
  EXPECT_EQ(sink->ends, 0);
  fail(2, Code::kUnavailable);
  EXPECT_EQ(sink->error, "given up after 3 attempts; the last one: broken");
  EXPECT_EQ(sink->ends, 1);
  expect_nothing_left();
}

TEST_F(DispatcherTest, ChoicesRunIndependentlyAndThePromptIsBookedOnce) {
  const auto sink = std::make_shared<FakeSink>();
  submit(sink, 2);
  EXPECT_EQ(router_.ledger().pending_total(), (Remainder{2, 10}));
  produce(1, 0, kEosToken, wire::FinishReason::kStop);
  EXPECT_EQ(sink->ends, 0);
  produce(0, 0, kEosToken, wire::FinishReason::kStop);
  EXPECT_EQ(sink->ends, 1);
  expect_nothing_left();
}

TEST_F(DispatcherTest, BackPressureOfALinkMeansWaitingNotLosing) {
  port_.answer = wire::Sent::kWouldBlock;
  const auto sink = std::make_shared<FakeSink>();
  submit(sink);
  EXPECT_EQ(router_.ledger().pending_total(), Remainder{});
  port_.answer = wire::Sent::kQueued;
  dispatcher_.on_tick();
  ASSERT_EQ(port_.sent.size(), 1U);
  produce(0, 0, kEosToken, wire::FinishReason::kStop);
  EXPECT_EQ(sink->ends, 1);
  expect_nothing_left();
}

}  // namespace
}  // namespace phalanx::dispatch
