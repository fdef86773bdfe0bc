// SPDX-License-Identifier: Apache-2.0
// Replicas that die by what they were doing, and what becomes of the choices that ran there.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "phalanx/dispatch/dispatcher.h"
#include "phalanx/step/sampling.h"

#include "support/manual_clock.h"

namespace phalanx::dispatch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// What runs where, by the messages that came.
struct Replicas {
  wire::Sent operator()(ReplicaId replica, const wire::LeaderMessage& message) {
    if (room == 0) {
      return wire::Sent::kWouldBlock;
    }
    --room;
    if (const auto* submit = std::get_if<wire::Submit>(&message)) {
      running[replica].insert_or_assign(submit->key, *submit);
    } else if (const auto* cancel = std::get_if<wire::Cancel>(&message)) {
      running[replica].erase(cancel->key);
    }
    return wire::Sent::kQueued;
  }
  [[nodiscard]] std::set<std::uint64_t> requests(ReplicaId replica) {
    std::set<std::uint64_t> result;
    for (const auto& [key, submit] : running[replica]) {
      result.insert(key.request.value());
    }
    return result;
  }
  std::map<ReplicaId, std::map<wire::SequenceKey, wire::Submit>> running;
  std::size_t room = std::numeric_limits<std::size_t>::max();  // in the links
};

struct Sink final : GenerationSink {
  void on_token(const TokenEvent& event) override { EXPECT_EQ(event.position, tokens++); }
  void on_done() override { done = true; }
  void on_error(const Error& failure) override { error = failure; }
  std::uint32_t tokens = 0;
  bool done = false;
  std::optional<Error> error;
};

class DispatcherDeaths : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  DispatcherDeaths()
      : router_(GetParam(), *make_policy("least_pending_tokens", 1)),
        dispatcher_(router_, std::ref(replicas_), clock_, options()) {
    clock_.advance(std::chrono::hours(1));
    for (std::uint32_t i = 0; i < GetParam(); ++i) {
      come_back(ReplicaId(i));
    }
  }

  DispatcherOptions options() {
    DispatcherOptions options;
    options.on_poisoned = [this](const PoisonedChoice& choice) {
      dumped.push_back(choice.request.value());
      EXPECT_EQ(choice.error.code(), Code::kPoisoned);
      EXPECT_FALSE(choice.generation.prompt_ids.empty());
    };
    options.on_more = [this] { more_ = true; };
    return options;
  }

  // The turns of the loop that have been asked for.
  void take_turns() {
    while (std::exchange(more_, false)) {
      dispatcher_.dispatch_more();
    }
  }

  // Their prompts differ, from that numbered `first` on.
  void submit(std::size_t count, std::optional<std::size_t> first = std::nullopt) {
    for (std::size_t i = 0; i < count; ++i) {
      sinks.push_back(std::make_shared<Sink>());
      Generation generation;
      generation.prompt_ids = {1, 2, static_cast<TokenId>(first ? *first + i : sinks.size())};
      generation.stop.max_tokens = 50;
      dispatcher_.submit(std::move(generation), sinks.back());
      take_turns();
    }
  }

  void come_back(ReplicaId replica) {
    router_.table().at(replica).ready = true;
    router_.table().at(replica).numerics_fingerprint = 1;
    dispatcher_.on_replica_ready(replica);
    take_turns();
  }

  bool die(ReplicaId replica, bool own) {
    replicas_.running[replica].clear();
    router_.table().at(replica).ready = false;
    dispatcher_.on_replica_lost(replica);
    clock_.advance(milliseconds(5));
    const bool blamed = dispatcher_.on_replica_died(replica, own, "killed by signal 11");
    come_back(replica);
    return blamed;
  }

  // A token for everything that runs.
  void step() {
    for (std::uint32_t i = 0; i < GetParam(); ++i) {
      const ReplicaId replica(i);
      const auto now = replicas_.running[replica];
      for (const auto& [key, submit] : now) {
        if (!replicas_.running[replica].contains(key)) {
          continue;
        }
        wire::TokenUpdate update;
        update.key = key;
        update.has_token = true;
        update.token = 7;
        update.position = sinks[key.request.value() - 1]->tokens;
        update.to_generate = 49 - update.position;
        if (update.position == 49) {
          update.finish = step::FinishReason::kLength;
          replicas_.running[replica].erase(key);
        }
        dispatcher_.on_token_batch(replica, {StepId(1), {update}});
      }
    }
    clock_.advance(milliseconds(100));
    dispatcher_.on_tick();
    take_turns();
  }

  // Runs until all have ended. A replica that runs one of `deadly` dies instead of making tokens.
  void run(const std::set<std::uint64_t>& deadly) {
    for (int i = 0; i < 1000 && dispatcher_.requests() > 0; ++i) {
      for (std::uint32_t r = 0; r < GetParam(); ++r) {
        const std::set<std::uint64_t> here = replicas_.requests(ReplicaId(r));
        if (std::any_of(here.begin(), here.end(), [&](auto id) { return deadly.contains(id); })) {
          ++deaths;
          EXPECT_TRUE(die(ReplicaId(r), true));
        }
      }
      step();
    }
    EXPECT_EQ(dispatcher_.requests(), 0U);
    for (std::uint32_t r = 0; r < GetParam(); ++r) {
      EXPECT_EQ(router_.ledger().pending(ReplicaId(r)), Remainder{});
      EXPECT_FALSE(router_.table().at(ReplicaId(r)).reserved);
    }
  }

  test::ManualClock clock_;
  Replicas replicas_;
  bool more_ = false;
  Router router_;
  Dispatcher dispatcher_;
  std::vector<std::shared_ptr<Sink>> sinks;
  std::vector<std::uint64_t> dumped;
  int deaths = 0;
};

TEST_P(DispatcherDeaths, OnlyTheCulpritEnds) {
  for (const std::uint64_t culprit : {1U, 6U, 8U}) {
    SCOPED_TRACE(culprit);
    const std::uint64_t before = sinks.size();
    submit(8);
    dumped.clear();
    deaths = 0;
    run({before + culprit});
    EXPECT_EQ(dumped, std::vector<std::uint64_t>{before + culprit});
    EXPECT_LE(deaths, 6);
    for (std::uint64_t i = before + 1; i <= before + 8; ++i) {
      EXPECT_EQ(sinks[i - 1]->done, i != before + culprit);
      EXPECT_EQ(sinks[i - 1]->error.has_value(), i == before + culprit);
    }
  }
}

TEST_P(DispatcherDeaths, TheSameAgainEndsAtOnceAndKillsNobody) {
  submit(1);
  run({1});
  ASSERT_TRUE(sinks[0]->error);
  const std::size_t room = replicas_.room;
  submit(1, 1);
  EXPECT_FALSE(sinks[1]->error) << "not from within";
  submit(1, 1);
  dispatcher_.cancel(RequestId(3));
  dispatcher_.on_tick();
  ASSERT_TRUE(sinks[1]->error);
  EXPECT_EQ(sinks[1]->error->code(), Code::kPoisoned);
  EXPECT_FALSE(sinks[2]->error);
  EXPECT_EQ(dispatcher_.requests(), 0U);
  EXPECT_EQ(replicas_.room, room) << "nobody was sent anything";
  EXPECT_EQ(dumped, std::vector<std::uint64_t>{1});
  clock_.advance(PoisonMemory::kRemembered);
  submit(1, 1);
  run({});
  EXPECT_TRUE(sinks[3]->done) << "it is tried again";
}

TEST_P(DispatcherDeaths, SeveralCulpritsEnd) {
  submit(12);
  run({2, 3, 11});
  std::sort(dumped.begin(), dumped.end());
  EXPECT_EQ(dumped, (std::vector<std::uint64_t>{2, 3, 11}));
}

TEST_P(DispatcherDeaths, BySignalsEndNobodyHoweverMany) {
  submit(1);
  for (int i = 0; i < 20; ++i) {
    const ReplicaId replica(replicas_.requests(ReplicaId(0)).empty() ? 1 : 0);
    EXPECT_FALSE(die(replica, false));
    clock_.advance(milliseconds(100));
    dispatcher_.on_tick();
    take_turns();
  }
  EXPECT_FALSE(sinks[0]->error);
  run({});
  EXPECT_TRUE(sinks[0]->done);
}

TEST_P(DispatcherDeaths, ThatNobodyJudgesHoldUpNobody) {
  submit(1);
  const ReplicaId replica(replicas_.requests(ReplicaId(0)).empty() ? 1 : 0);
  replicas_.running[replica].clear();
  dispatcher_.on_replica_lost(replica);
  dispatcher_.on_tick();
  EXPECT_TRUE(replicas_.requests(ReplicaId(0)).empty());
  clock_.advance(seconds(1));
  dispatcher_.on_tick();
  run({});
  EXPECT_TRUE(sinks[0]->done);
}

TEST_P(DispatcherDeaths, SuspectsGoOnWhenTheirReplicaDoesNotComeBack) {
  submit(6);
  const ReplicaId first(0);
  replicas_.running[first].clear();
  router_.table().at(first).ready = false;
  dispatcher_.on_replica_lost(first);
  EXPECT_TRUE(dispatcher_.on_replica_died(first, true, "killed by signal 11"));
  EXPECT_TRUE(router_.table().at(first).reserved);
  dispatcher_.on_replica_failed(first);
  EXPECT_FALSE(router_.table().at(first).reserved);
  if (GetParam() == 1) {
    come_back(first);
  }
  run({});
  for (const auto& sink : sinks) {
    EXPECT_TRUE(sink->done);
  }
}

// Each start of the bench takes 20 s, and a search some of them.
TEST_P(DispatcherDeaths, ALongSearchEndsNobodyWhoWaitsForItsBench) {
  constexpr std::uint64_t kCulprit = 6;
  submit(8);
  const auto die_slowly = [&](ReplicaId replica) {
    ++deaths;
    replicas_.running[replica].clear();
    router_.table().at(replica).ready = false;
    dispatcher_.on_replica_lost(replica);
    EXPECT_TRUE(dispatcher_.on_replica_died(replica, true, "killed by signal 11"));
    for (int i = 0; i < 200; ++i) {
      clock_.advance(milliseconds(100));
      dispatcher_.on_tick();
      take_turns();
    }
    come_back(replica);
  };
  for (int i = 0; i < 1000 && dispatcher_.requests() > 0; ++i) {
    for (std::uint32_t r = 0; r < GetParam(); ++r) {
      if (replicas_.requests(ReplicaId(r)).contains(kCulprit)) {
        die_slowly(ReplicaId(r));
      }
    }
    if (sinks.size() == 8) {
      submit(1);  // it waits where there is no other replica
    }
    step();
  }
  EXPECT_GT(deaths, 3);
  for (std::uint64_t i = 1; i <= sinks.size(); ++i) {
    EXPECT_EQ(sinks[i - 1]->done, i != kCulprit) << i;
  }
}

TEST_P(DispatcherDeaths, SuspectsThatLeaveFreeTheOthers) {
  submit(4);
  const std::set<std::uint64_t> here = replicas_.requests(ReplicaId(0));
  EXPECT_TRUE(die(ReplicaId(0), true));
  for (const std::uint64_t id : here) {
    dispatcher_.cancel(RequestId(id));
  }
  EXPECT_FALSE(router_.table().at(ReplicaId(0)).reserved);
  run({});
}

// Whoever was beside it when its replica died ran there until the replica had read of the end.
TEST_P(DispatcherDeaths, WhoRanBesideARequestThatHasLeftWasNotAlone) {
  submit(1);
  const auto replica_of = [&](std::uint64_t id) {
    return ReplicaId(replicas_.requests(ReplicaId(0)).contains(id) ? 0 : GetParam() - 1);
  };
  for (int i = 0; i < 5; ++i) {
    submit(GetParam());
    const std::uint64_t last = sinks.size();
    for (std::uint64_t id = last; id > last - GetParam(); --id) {
      dispatcher_.cancel(RequestId(id));
    }
    EXPECT_TRUE(die(replica_of(1), true));
    step();
    step();
    ASSERT_FALSE(sinks[0]->error) << sinks[0]->error->message();
  }
  run({});
  EXPECT_TRUE(sinks[0]->done);
  EXPECT_TRUE(dumped.empty());
}

TEST_P(DispatcherDeaths, WhoRanBesideARequestThatLeavesBeforeTheVerdictWasNotAlone) {
  const ReplicaId first(0);
  for (std::uint32_t r = 1; r < GetParam(); ++r) {
    router_.table().at(ReplicaId(r)).draining = true;
  }
  submit(1);
  for (int i = 0; i < 5; ++i) {
    submit(1);
    replicas_.running[first].clear();
    router_.table().at(first).ready = false;
    dispatcher_.on_replica_lost(first);
    dispatcher_.cancel(RequestId(sinks.size()));
    EXPECT_TRUE(dispatcher_.on_replica_died(first, true, "killed by signal 11"));
    come_back(first);
    step();
    step();
    ASSERT_FALSE(sinks[0]->error) << sinks[0]->error->message();
  }
  run({});
  EXPECT_TRUE(sinks[0]->done);
}

// What the replica has shown to have read of is gone from it.
TEST_P(DispatcherDeaths, OneThatKillsAloneIsFoundWhereOthersHaveLeftBefore) {
  const ReplicaId first(0);
  for (std::uint32_t r = 1; r < GetParam(); ++r) {
    router_.table().at(ReplicaId(r)).draining = true;
  }
  submit(2);
  dispatcher_.cancel(RequestId(2));
  dispatcher_.on_holding(first, {3, {}, true, {replicas_.running[first].begin()->first}});
  deaths = 0;
  run({1});
  EXPECT_EQ(deaths, 2);
  EXPECT_EQ(dumped, std::vector<std::uint64_t>{1});
}

// The other one has failed: what was accepted runs where it can, and whoever kills it is found.
TEST_P(DispatcherDeaths, OnlyTheCulpritEndsOnADrainedReplicaThatIsTheLast) {
  for (std::uint32_t r = 1; r < GetParam(); ++r) {
    router_.table().at(ReplicaId(r)).ready = false;
    router_.table().at(ReplicaId(r)).failed = true;
  }
  submit(8);
  router_.table().at(ReplicaId(0)).draining = true;
  for (int i = 0; i < 1000 && dispatcher_.requests() > 0; ++i) {
    // As supervision tells of a drained one.
    router_.table().at(ReplicaId(0)).ready = false;
    router_.table().at(ReplicaId(0)).alive = true;
    if (replicas_.requests(ReplicaId(0)).contains(6)) {
      ++deaths;
      EXPECT_TRUE(die(ReplicaId(0), true));
      router_.table().at(ReplicaId(0)).ready = false;
    }
    step();
  }
  EXPECT_EQ(dispatcher_.requests(), 0U);
  EXPECT_LE(deaths, 6);
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    EXPECT_EQ(sinks[i]->error.has_value(), i == 5);
  }
}

// Of any number of choices.
// What waits while a suspect is tried loses no time by it, and the verdict, which comes with a
// death, is no moment to ask who serves.
TEST_P(DispatcherDeaths, AVerdictEndsNobodyElse) {
  const auto pass = [&](int length) {
    for (int tenth = 0; tenth < length * 10; ++tenth) {
      clock_.advance(milliseconds(100));
      dispatcher_.on_tick();
      take_turns();
    }
  };
  const auto lose_the_deadly = [&] {
    for (std::uint32_t r = 0;; ++r) {
      const ReplicaId replica(r);
      if (replicas_.requests(replica).contains(1)) {
        replicas_.running[replica].clear();
        router_.table().at(replica).ready = false;
        dispatcher_.on_replica_lost(replica);
        EXPECT_TRUE(dispatcher_.on_replica_died(replica, true, "killed by signal 11"));
        return replica;
      }
      if (r + 1 == GetParam()) {
        ADD_FAILURE() << "nobody runs it";
        return replica;
      }
    }
  };
  submit(1);
  const ReplicaId first = lose_the_deadly();
  pass(1);
  submit(1);
  pass(34);
  come_back(first);
  pass(1);
  const ReplicaId second = lose_the_deadly();
  ASSERT_EQ(dumped, std::vector<std::uint64_t>{1});
  pass(35);
  EXPECT_FALSE(sinks[1]->error.has_value()) << "35 s without a replica that could take it";
  come_back(second);
  for (int i = 0; i < 60; ++i) {
    step();
  }
  EXPECT_TRUE(sinks[1]->done);
}

struct LooseSink final : GenerationSink {
  void on_token(const TokenEvent& event) override { ++tokens[event.choice]; }
  void on_done() override { done = true; }
  void on_error(const Error& failure) override { error = failure; }
  std::map<std::uint32_t, std::uint32_t> tokens;
  bool done = false;
  std::optional<Error> error;
};

TEST_P(DispatcherDeaths, AChoiceThatIsStoppedIsASuspectNoMore) {
  const ReplicaId first(0);
  for (std::uint32_t r = 1; r < GetParam(); ++r) {
    router_.table().at(ReplicaId(r)).draining = true;
  }
  const auto sink = std::make_shared<LooseSink>();
  Generation generation;
  generation.prompt_ids = {1, 2, 3};
  generation.stop.max_tokens = 3;
  generation.choices = 2;
  const RequestId id = dispatcher_.submit(std::move(generation), sink);
  const auto tokens = [&] {
    const auto now = replicas_.running[first];
    for (const auto& [key, submit] : now) {
      wire::TokenUpdate update;
      update.key = key;
      update.has_token = true;
      update.token = 7;
      update.position = sink->tokens[key.choice.value()];
      update.to_generate = 2 - update.position;
      if (update.position == 2) {
        update.finish = step::FinishReason::kLength;
        replicas_.running[first].erase(key);
      }
      dispatcher_.on_token_batch(first, {StepId(1), {update}});
    }
  };
  tokens();
  EXPECT_TRUE(die(first, true));
  EXPECT_TRUE(router_.table().at(first).reserved);
  dispatcher_.stop(id, 0, 0);  // its text had a stop string, which was seen late
  dispatcher_.on_tick();
  ASSERT_EQ(replicas_.running[first].size(), 1U);
  EXPECT_EQ(replicas_.running[first].begin()->first.choice.value(), 1U);
  tokens();
  EXPECT_FALSE(router_.table().at(first).reserved) << "the other one got further";
  tokens();
  EXPECT_TRUE(sink->done);
  EXPECT_FALSE(sink->error);
  EXPECT_EQ(router_.ledger().pending(first), Remainder{});
}

// ---- replicas that live and compute nothing

class DispatcherRelief : public DispatcherDeaths {
 protected:
  // Its group is not formed.
  void pause(ReplicaId replica) { router_.table().at(replica).ready = false; }
};

TEST_P(DispatcherRelief, ChoicesGoOnElsewhereFromTheirTokens) {
  submit(6);
  step();
  const ReplicaId first(0);
  const std::set<std::uint64_t> here = replicas_.requests(first);
  ASSERT_FALSE(here.empty());
  EXPECT_EQ(dispatcher_.relieve(first), 0U) << "it may take work";
  pause(first);
  EXPECT_EQ(dispatcher_.relieve(first), here.size());
  EXPECT_TRUE(replicas_.requests(first).empty()) << "it is told to drop them";
  for (const auto& [key, submit] : replicas_.running[ReplicaId(1)]) {
    if (here.contains(key.request.value())) {
      EXPECT_EQ(key.attempt, Attempt(2));
      EXPECT_EQ(submit.produced_ids, std::vector<TokenId>{7});
    }
  }
  EXPECT_EQ(router_.ledger().open_attempts(first), 0U);
  EXPECT_EQ(dispatcher_.relieve(first), 0U);
  run({});
  for (const auto& sink : sinks) {
    EXPECT_TRUE(sink->done);
  }
}

TEST_P(DispatcherRelief, WhatItStillSaysOfThemIsLate) {
  submit(2);
  const ReplicaId first(0);
  ASSERT_EQ(replicas_.running[first].size(), 1U);
  wire::TokenUpdate late;
  late.key = replicas_.running[first].begin()->first;
  late.has_token = true;
  late.token = 9;
  pause(first);
  EXPECT_EQ(dispatcher_.relieve(first), 1U);
  dispatcher_.on_token_batch(first, {StepId(1), {late}});
  EXPECT_EQ(sinks[late.key.request.value() - 1]->tokens, 0U);
  dispatcher_.on_holding(first, {1, {}, true, {late.key}});
  EXPECT_EQ(dispatcher_.difference(first).unknown, 0U) << "its cancellation is on the way";
  dispatcher_.on_holding(first, {2, {}, true, {late.key}});
  EXPECT_EQ(dispatcher_.difference(first).unknown, 1U) << "it should have been handled";
  run({});
}

TEST_P(DispatcherRelief, NothingMovesThatNobodyTakes) {
  submit(4);
  const ReplicaId first(0);
  const auto before = replicas_.running;
  pause(first);
  const std::size_t room = std::exchange(replicas_.room, 0);
  EXPECT_EQ(dispatcher_.relieve(first), 0U);
  replicas_.room = room;
  for (std::uint32_t i = 1; i < GetParam(); ++i) {
    router_.table().at(ReplicaId(i)).numerics_fingerprint = 2;
  }
  dispatcher_.on_tick();
  EXPECT_EQ(dispatcher_.relieve(first), 0U) << "other numerics";
  for (std::uint32_t i = 1; i < GetParam(); ++i) {
    pause(ReplicaId(i));
  }
  EXPECT_EQ(dispatcher_.relieve(first), 0U);
  EXPECT_EQ(replicas_.requests(first).size(), before.at(first).size());
  EXPECT_EQ(dispatcher_.waiting(), 0U);
  for (const auto& [key, submit] : replicas_.running[first]) {
    EXPECT_EQ(key.attempt, Attempt(1));
  }
  for (std::uint32_t i = 0; i < GetParam(); ++i) {
    come_back(ReplicaId(i));
  }
  run({});
}

TEST_P(DispatcherRelief, CancellationsAreKeptUntilTheLinkTakesThem) {
  submit(2);
  const ReplicaId first(0);
  pause(first);
  replicas_.room = 1;  // for the submission
  EXPECT_EQ(dispatcher_.relieve(first), 1U);
  EXPECT_EQ(dispatcher_.unsent_cancels(first), 1U);
  EXPECT_FALSE(replicas_.requests(first).empty());
  replicas_.room = 100;
  dispatcher_.on_tick();
  EXPECT_EQ(dispatcher_.unsent_cancels(first), 0U);
  EXPECT_TRUE(replicas_.requests(first).empty());
}

TEST_P(DispatcherRelief, SuspectsStayOnTheirBench) {
  submit(8);
  const ReplicaId first(0);
  EXPECT_TRUE(die(first, true));
  dispatcher_.on_tick();
  ASSERT_FALSE(replicas_.requests(first).empty());
  pause(first);
  EXPECT_EQ(dispatcher_.relieve(first), 0U);
  come_back(first);
  run({});
}

INSTANTIATE_TEST_SUITE_P(Replicas, DispatcherRelief, ::testing::Values(2U, 3U));
INSTANTIATE_TEST_SUITE_P(Replicas, DispatcherDeaths, ::testing::Values(1U, 2U, 3U));

}  // namespace
}  // namespace phalanx::dispatch
