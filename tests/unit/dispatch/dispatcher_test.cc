// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/dispatcher.h"

#include <functional>
#include <utility>

#include <gtest/gtest.h>

#include "phalanx/step/sampling.h"

#include "support/manual_clock.h"

namespace phalanx::dispatch {
namespace {

constexpr TokenId kEosToken = 256;

struct FakePort {
  wire::Sent operator()(ReplicaId replica, const wire::LeaderMessage& message) {
    if (answer == wire::Sent::kQueued) {
      sent.emplace_back(replica, message);
    }
    ++asked;
    return answer;
  }

  [[nodiscard]] const wire::Submit& submit(std::size_t index) const {
    return std::get<wire::Submit>(sent.at(index).second);
  }

  // The key of the last message, which is a Cancel.
  [[nodiscard]] wire::SequenceKey cancelled() const {
    return std::get<wire::Cancel>(sent.back().second).key;
  }

  wire::Sent answer = wire::Sent::kQueued;
  std::size_t asked = 0;
  std::vector<std::pair<ReplicaId, wire::LeaderMessage>> sent;
};

struct FakeSink final : GenerationSink {
  void on_token(const TokenEvent& event) override {
    if (event.token != kEosToken) {
      text += static_cast<char>(event.token);
    }
    if (event.token == stop_at) {
      dispatcher->stop(request, event.choice, event.position);
    }
  }
  void on_done() override { ++ends; }
  void on_error(const Error& failure) override {
    ++ends;
    error = failure.message();
  }
  Dispatcher* dispatcher = nullptr;
  RequestId request;
  TokenId stop_at = -1;
  std::string text;
  std::string error;
  int ends = 0;
};

class DispatcherTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kReplicas = 2;

  DispatcherTest()
      : router_(kReplicas, *make_policy("least_pending_tokens", 1)),
        dispatcher_(router_, std::ref(port_), clock_, {std::chrono::seconds(10), {}, [this] {
                                                         more_ = true;
                                                       }}) {
    clock_.advance(std::chrono::hours(1));
    for (std::uint32_t i = 0; i < kReplicas; ++i) {
      set_ready(ReplicaId(i), true);
    }
  }

  void set_ready(ReplicaId replica, bool ready) {
    router_.table().at(replica).ready = ready;
    router_.table().at(replica).numerics_fingerprint = 1;
  }

  // The turns of the loop that have been asked for.
  void take_turns() {
    while (std::exchange(more_, false)) {
      dispatcher_.dispatch_more();
    }
  }

  void lose(ReplicaId replica) {
    set_ready(replica, false);
    dispatcher_.on_replica_lost(replica);
    EXPECT_FALSE(dispatcher_.on_replica_died(replica, false, "killed by signal 9 (SIGKILL)"));
    take_turns();
  }

  RequestId submit(const std::shared_ptr<FakeSink>& sink, std::uint32_t choices = 1) {
    sink->dispatcher = &dispatcher_;
    Generation request;
    request.prompt_ids = {'p', 'q'};
    request.stop.max_tokens = 5;
    request.stop.stop_token_ids = {kEosToken};
    request.choices = choices;
    sink->request = dispatcher_.submit(std::move(request), sink);
    take_turns();
    return sink->request;
  }

  // The replica reports that the attempt it was sent as message `index` produced `token`.
  void produce(std::size_t index,
               std::uint32_t position,
               TokenId token,
               step::FinishReason finish = step::FinishReason::kNone) {
    wire::TokenUpdate update;
    update.key = port_.submit(index).key;
    update.position = position;
    update.has_token = true;
    update.token = token;
    update.finish = finish;
    update.to_generate = finish == step::FinishReason::kNone ? 4 - position : 0;
    dispatcher_.on_token_batch(port_.sent[index].first, {StepId(1), {update}});
    take_turns();
  }

  void fail(std::size_t index, Code code) {
    wire::TokenUpdate update;
    update.key = port_.submit(index).key;
    update.finish = step::FinishReason::kError;
    update.error_code = static_cast<std::uint32_t>(code);
    update.error_message = "broken";
    dispatcher_.on_token_batch(port_.sent[index].first, {StepId(1), {update}});
    take_turns();
  }

  // The replica has handled so many effects and has these keys beyond `after`.
  void hold(std::uint32_t replica,
            std::uint64_t effects,
            std::vector<wire::SequenceKey> keys,
            wire::SequenceKey after = {},
            bool to_end = true) {
    dispatcher_.on_holding(ReplicaId(replica), {effects, after, to_end, std::move(keys)});
    take_turns();
  }

  // Only replica 0, whose breaker is half open.
  void half_open() {
    set_ready(ReplicaId(1), false);
    for (int i = 0; i < 3; ++i) {
      router_.table().at(ReplicaId(0)).breaker.on_failure(clock_.now());
    }
    clock_.advance(std::chrono::seconds(6));
  }

  void expect_nothing_pending() {
    for (std::uint32_t i = 0; i < kReplicas; ++i) {
      EXPECT_EQ(router_.ledger().pending(ReplicaId(i)), Remainder{});
    }
  }

  void expect_nothing_left() {
    expect_nothing_pending();
    EXPECT_EQ(dispatcher_.requests(), 0U);
    EXPECT_EQ(dispatcher_.waiting(), 0U);
  }

  test::ManualClock clock_;
  FakePort port_;
  bool more_ = false;
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
  produce(0, 2, kEosToken, step::FinishReason::kStop);
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
  produce(1, 3, kEosToken, step::FinishReason::kStop);
  EXPECT_EQ(sink->text, "abc");
  EXPECT_EQ(sink->ends, 1);
  expect_nothing_left();
}

TEST_F(DispatcherTest, DropsRepeatedTokensAndRunsAgainAfterAGap) {
  const auto sink = std::make_shared<FakeSink>();
  submit(sink);
  produce(0, 0, 'a');
  produce(0, 0, 'a');
  EXPECT_EQ(sink->text, "a");
  produce(0, 2, 'c');
  EXPECT_EQ(port_.submit(1).produced_ids, (std::vector<TokenId>{'a'}));
  produce(1, 1, kEosToken, step::FinishReason::kStop);
  EXPECT_EQ(sink->ends, 1);
  expect_nothing_left();
}

// The deadline is for replicas that do not come: who waits for a place pays for no time in which
// one served, so a restart that follows has all of its time.
TEST_F(DispatcherTest, CountsOnlyTheTimeInWhichNoneServes) {
  set_ready(ReplicaId(1), false);
  port_.answer = wire::Sent::kWouldBlock;
  const auto waits = std::make_shared<FakeSink>();
  submit(waits);
  const auto pass = [&](int length) {
    for (int second = 0; second < length; ++second) {
      clock_.advance(std::chrono::seconds(1));
      dispatcher_.on_tick();
      take_turns();
    }
  };
  pass(59);
  lose(ReplicaId(0));
  pass(9);
  EXPECT_EQ(waits->error, "") << "68 s, of which 9 without a replica";
  set_ready(ReplicaId(0), true);
  pass(3);
  set_ready(ReplicaId(0), false);
  pass(10);
  EXPECT_EQ(waits->error, "no replica became ready in time; try again later");
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
  produce(0, 0, kEosToken, step::FinishReason::kStop);

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

TEST_F(DispatcherTest, FailuresOfTheReplicaAreTriedElsewhereHoweverOften) {
  const auto sink = std::make_shared<FakeSink>();
  submit(sink);
  for (std::uint32_t i = 0; i < 10; ++i) {
    ASSERT_EQ(port_.sent.size(), i + std::size_t{1});
    EXPECT_EQ(port_.sent[i].first, ReplicaId(i % 2));
    fail(i, Code::kUnavailable);
    clock_.advance(std::chrono::seconds(9));
    dispatcher_.on_tick();
  }
  EXPECT_EQ(sink->ends, 0);
  produce(10, 0, kEosToken, step::FinishReason::kStop);
  EXPECT_EQ(sink->ends, 1);
  expect_nothing_left();
}

TEST_F(DispatcherTest, RestartsAndFullQueuesAreHeldAgainstNoRequest) {
  const auto sink = std::make_shared<FakeSink>();
  submit(sink);
  for (int i = 0; i < 12; ++i) {
    const ReplicaId replica = port_.sent.back().first;
    if (i % 2 == 0) {
      lose(replica);
      set_ready(replica, true);
      dispatcher_.on_replica_ready(replica);
    } else {
      fail(port_.sent.size() - 1, Code::kResourceExhausted);
      EXPECT_TRUE(router_.table().at(replica).breaker.allows(clock_.now())) << "no failure";
      EXPECT_FALSE(router_.table().usable(replica, clock_.now())) << "it is full";
    }
    clock_.advance(std::chrono::milliseconds(100));
    dispatcher_.on_tick();
  }
  EXPECT_EQ(sink->ends, 0);
  produce(port_.sent.size() - 1, 0, kEosToken, step::FinishReason::kStop);
  EXPECT_EQ(sink->ends, 1);
  expect_nothing_left();
}

TEST_F(DispatcherTest, TokensLeftOutAgainAndAgainEndTheRequest) {
  const auto sink = std::make_shared<FakeSink>();
  submit(sink);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sink->ends, 0);
    produce(i, 1, 'b');
  }
  EXPECT_EQ(sink->error, "replicas left out tokens of this request");
  expect_nothing_left();
}

TEST_F(DispatcherTest, ChoicesRunIndependently) {
  const auto sink = std::make_shared<FakeSink>();
  submit(sink, 3);
  EXPECT_EQ(router_.ledger().pending(ReplicaId(0)), (Remainder{4, 10}));
  EXPECT_EQ(router_.ledger().pending(ReplicaId(1)), (Remainder{2, 5}));
  produce(2, 0, kEosToken, step::FinishReason::kStop);
  produce(1, 0, kEosToken, step::FinishReason::kStop);
  EXPECT_EQ(sink->ends, 0);
  produce(0, 0, kEosToken, step::FinishReason::kStop);
  EXPECT_EQ(sink->ends, 1);
  expect_nothing_left();
}

TEST_F(DispatcherTest, BackPressureOfALinkMeansWaitingNotLosing) {
  port_.answer = wire::Sent::kWouldBlock;
  const auto sink = std::make_shared<FakeSink>();
  submit(sink);
  expect_nothing_pending();
  for (int i = 0; i < 10; ++i) {
    dispatcher_.on_tick();
  }
  port_.answer = wire::Sent::kQueued;
  dispatcher_.on_tick();
  ASSERT_EQ(port_.sent.size(), 1U);
  EXPECT_EQ(port_.submit(0).key.attempt, Attempt(1));
  produce(0, 0, kEosToken, step::FinishReason::kStop);
  EXPECT_EQ(sink->ends, 1);
  expect_nothing_left();
}

TEST_F(DispatcherTest, ACancelThatTheLinkDoesNotTakeIsKept) {
  const auto sink = std::make_shared<FakeSink>();
  const RequestId id = submit(sink, 2);
  port_.answer = wire::Sent::kWouldBlock;
  dispatcher_.cancel(id);
  expect_nothing_left();
  EXPECT_EQ(dispatcher_.unsent_cancels(ReplicaId(0)), 1U);
  EXPECT_EQ(dispatcher_.unsent_cancels(ReplicaId(1)), 1U);
  dispatcher_.on_tick();
  EXPECT_EQ(port_.sent.size(), 2U);
  port_.answer = wire::Sent::kQueued;
  dispatcher_.on_tick();
  ASSERT_EQ(port_.sent.size(), 4U);
  EXPECT_EQ(port_.cancelled(), port_.submit(1).key);
  EXPECT_EQ(dispatcher_.unsent_cancels(ReplicaId(0)), 0U);
}

TEST_F(DispatcherTest, KeptCancelsEndWithTheReplica) {
  const auto sink = std::make_shared<FakeSink>();
  const RequestId id = submit(sink);
  port_.answer = wire::Sent::kWouldBlock;
  dispatcher_.cancel(id);
  lose(ReplicaId(0));
  port_.answer = wire::Sent::kQueued;
  dispatcher_.on_tick();
  EXPECT_EQ(port_.sent.size(), 1U);
}

TEST_F(DispatcherTest, CancelsAgainWhatAReplicaStillHas) {
  const auto sink = std::make_shared<FakeSink>();
  const RequestId id = submit(sink);
  const wire::SequenceKey key = port_.submit(0).key;
  hold(0, 1, {key});
  dispatcher_.cancel(id);
  hold(0, 1, {key});  // told before it had read the cancellation
  ASSERT_EQ(port_.sent.size(), 2U);
  EXPECT_EQ(dispatcher_.difference(ReplicaId(0)).unknown, 0U);

  hold(0, 2, {key});
  ASSERT_EQ(port_.sent.size(), 3U);
  EXPECT_EQ(port_.cancelled(), key);
  EXPECT_EQ(dispatcher_.difference(ReplicaId(0)).unknown, 1U);
  hold(0, 3, {});
  EXPECT_EQ(dispatcher_.difference(ReplicaId(0)).unknown, 0U);
  EXPECT_EQ(port_.sent.size(), 3U);
}

TEST_F(DispatcherTest, DispatchesAgainWhatAReplicaDoesNotHave) {
  const auto sink = std::make_shared<FakeSink>();
  submit(sink);
  hold(0, 0, {});  // told before it had read the submission
  ASSERT_EQ(port_.sent.size(), 1U);
  produce(0, 0, 'a');
  hold(0, 1, {});
  EXPECT_EQ(dispatcher_.difference(ReplicaId(0)).missing, 1U);
  ASSERT_EQ(port_.sent.size(), 2U);
  EXPECT_EQ(port_.sent[1].first, ReplicaId(1));
  EXPECT_EQ(port_.submit(1).produced_ids, (std::vector<TokenId>{'a'}));
  hold(0, 1, {});
  EXPECT_EQ(dispatcher_.difference(ReplicaId(0)).missing, 0U);
  produce(1, 1, kEosToken, step::FinishReason::kStop);
  EXPECT_EQ(sink->text, "a");
  expect_nothing_left();
}

TEST_F(DispatcherTest, ASequenceLostAgainAndAgainEndsTheRequest) {
  const auto sink = std::make_shared<FakeSink>();
  submit(sink);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sink->ends, 0);
    hold(port_.sent.back().first.value(), 10, {});
  }
  EXPECT_EQ(sink->error, "replicas lost this request again and again");
  EXPECT_EQ(sink->ends, 1);
  expect_nothing_left();
}

TEST_F(DispatcherTest, ComparesPartByPart) {
  set_ready(ReplicaId(1), false);
  std::vector<std::shared_ptr<FakeSink>> sinks;
  for (int i = 0; i < 3; ++i) {
    sinks.push_back(std::make_shared<FakeSink>());
    submit(sinks.back());
  }
  const wire::SequenceKey first = port_.submit(0).key;
  const wire::SequenceKey third = port_.submit(2).key;
  hold(0, 3, {first}, {}, false);
  EXPECT_EQ(port_.sent.size(), 3U) << "what lies beyond the part is not judged";
  hold(0, 3, {third}, first);
  EXPECT_EQ(dispatcher_.difference(ReplicaId(0)).missing, 1U);
  ASSERT_EQ(port_.sent.size(), 4U);
  EXPECT_EQ(port_.submit(3).key.request, port_.submit(1).key.request);
  EXPECT_EQ(port_.submit(3).key.attempt, Attempt(2));
}

TEST_F(DispatcherTest, ACancelledProbeLetsTheNextRequestProbe) {
  half_open();
  const RequestId probe = submit(std::make_shared<FakeSink>());
  const auto second = std::make_shared<FakeSink>();
  submit(second);
  EXPECT_EQ(port_.sent.size(), 1U) << "one probe at a time";
  dispatcher_.cancel(probe);
  dispatcher_.on_tick();
  ASSERT_EQ(port_.sent.size(), 3U);
  EXPECT_EQ(port_.submit(2).key.request, RequestId(2));
}

TEST_F(DispatcherTest, AProbeThatNeverArrivesLetsTheNextRequestProbe) {
  half_open();
  port_.answer = wire::Sent::kWouldBlock;
  submit(std::make_shared<FakeSink>());
  port_.answer = wire::Sent::kQueued;
  dispatcher_.on_tick();
  ASSERT_EQ(port_.sent.size(), 1U);
  hold(0, 1, {});  // the replica has lost it
  EXPECT_EQ(port_.sent.size(), 2U);
}

TEST_F(DispatcherTest, AProbeThatEndsWithItsReplicaLeavesNoTrace) {
  half_open();
  submit(std::make_shared<FakeSink>());
  lose(ReplicaId(0));
  set_ready(ReplicaId(0), true);
  dispatcher_.on_replica_ready(ReplicaId(0));
  submit(std::make_shared<FakeSink>());
  EXPECT_EQ(port_.sent.size(), 3U);
}

TEST_F(DispatcherTest, TheFirstTokenOfAProbeClosesTheBreaker) {
  half_open();
  submit(std::make_shared<FakeSink>());
  submit(std::make_shared<FakeSink>());
  submit(std::make_shared<FakeSink>());
  EXPECT_EQ(port_.sent.size(), 1U);
  produce(0, 0, 'a');
  EXPECT_EQ(port_.sent.size(), 3U);
}

// 131,072 choices wait: a scan of them in each tick would not end within the test's time limit.
TEST_F(DispatcherTest, WhatWaitsCostsOnlyWhatIsDispatched) {
  set_ready(ReplicaId(0), false);
  set_ready(ReplicaId(1), false);
  const auto sink = std::make_shared<FakeSink>();
  for (int i = 0; i < 1024; ++i) {
    submit(sink, 128);
  }
  EXPECT_EQ(dispatcher_.waiting(), 131'072U);
  for (int i = 0; i < 200'000; ++i) {
    dispatcher_.on_tick();
  }
  EXPECT_EQ(port_.asked, 0U);
  set_ready(ReplicaId(0), true);
  dispatcher_.on_replica_ready(ReplicaId(0));
  EXPECT_EQ(port_.sent.size(), SendingTurn::kSubmissions);
  EXPECT_EQ(port_.submit(0).key.request, RequestId(1));
  EXPECT_EQ(port_.submit(15).key.choice, ChoiceIndex(15));
  port_.answer = wire::Sent::kWouldBlock;
  port_.asked = 0;
  dispatcher_.on_tick();
  EXPECT_EQ(port_.asked, 1U) << "one refusal speaks for the line";
}

// The loop has other work: what a body multiplies is sent in turns, and each is asked for once.
TEST_F(DispatcherTest, SendsAndCancelsManyChoicesInTurns) {
  int asked = 0;
  Dispatcher dispatcher(
      router_, std::ref(port_), clock_, {std::chrono::seconds(10), {}, [&asked] { ++asked; }});
  const auto submit_choices = [&](std::uint32_t choices, std::size_t tokens) {
    Generation spec;
    spec.prompt_ids.assign(tokens, 1);
    spec.choices = choices;
    spec.stop.max_tokens = 4;
    return dispatcher.submit(std::move(spec), std::make_shared<FakeSink>());
  };
  const RequestId many = submit_choices(100, 1);
  EXPECT_EQ(port_.sent.size(), SendingTurn::kSubmissions);
  submit_choices(1, 1);
  EXPECT_EQ(port_.sent.size(), SendingTurn::kSubmissions) << "it is the same turn";
  for (int turn = 1; turn <= 6; ++turn) {
    EXPECT_EQ(asked, turn);
    const std::size_t before = port_.sent.size();
    dispatcher.dispatch_more();
    EXPECT_LE(port_.sent.size() - before, SendingTurn::kSubmissions);
  }
  EXPECT_EQ(port_.sent.size(), 101U);
  EXPECT_EQ(dispatcher.waiting(), 0U);

  dispatcher.dispatch_more();
  asked = 0;
  dispatcher.cancel(many);
  EXPECT_LT(port_.sent.size(), 201U);
  for (int turn = 1; port_.sent.size() < 201 && turn < 10; ++turn) {
    EXPECT_EQ(asked, turn);
    dispatcher.dispatch_more();
  }
  EXPECT_EQ(port_.sent.size(), 201U);

  port_.sent.clear();
  submit_choices(8, SendingTurn::kTokens / 2);
  EXPECT_EQ(port_.sent.size(), 2U) << "long ones are more work";
}

TEST_F(DispatcherTest, NobodyOvertakesThoseWhoWait) {
  set_ready(ReplicaId(0), false);
  set_ready(ReplicaId(1), false);
  submit(std::make_shared<FakeSink>());
  set_ready(ReplicaId(0), true);
  submit(std::make_shared<FakeSink>());
  dispatcher_.on_tick();
  ASSERT_EQ(port_.sent.size(), 2U);
  EXPECT_LT(port_.submit(0).key.request, port_.submit(1).key.request);
}

}  // namespace
}  // namespace phalanx::dispatch
