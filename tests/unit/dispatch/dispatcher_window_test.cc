// SPDX-License-Identifier: Apache-2.0
// What the leader holds for replicas that have not read it yet.
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "phalanx/dispatch/dispatcher.h"
#include "phalanx/step/limits.h"

#include "support/manual_clock.h"

namespace phalanx::dispatch {
namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t kReplicas = 2;
constexpr std::uint32_t kChoices = 128;
constexpr std::size_t kPromptBytes = step::kMaxPromptTokens * sizeof(TokenId);
// What a window of 64 MiB comes to with the submission that fills it.
constexpr std::size_t kMostBytes = ReplicaLink::kMaxUnhandledBytes + kPromptBytes + 1024;

// Links that take everything, as far as their replicas have read it.
struct Replicas {
  struct Frame {
    wire::SequenceKey key;
    std::size_t bytes;
  };
  wire::Sent operator()(ReplicaId replica, const wire::LeaderMessage& message) {
    Link& link = links.at(replica.value());
    ++link.sent;
    if (const auto* submit = std::get_if<wire::Submit>(&message)) {
      const std::size_t ids = submit->prompt_ids.size() + submit->produced_ids.size();
      link.unread.push_back({submit->key, ids * sizeof(TokenId)});
      link.unread_bytes += link.unread.back().bytes;
      most_bytes = std::max(most_bytes, link.unread_bytes);
    }
    return wire::Sent::kQueued;
  }

  struct Link {
    std::uint64_t sent = 0;
    std::deque<Frame> unread;
    std::size_t unread_bytes = 0;
    std::vector<wire::SequenceKey> held;  // read, ascending
  };
  std::array<Link, kReplicas> links;
  std::size_t most_bytes = 0;  // at any time, in one link
};

struct Sink final : GenerationSink {
  void on_token(const TokenEvent& /*event*/) override {}
  void on_done() override {}
  void on_error(const Error& failure) override { error = failure.message(); }
  std::string error;
};

class DispatcherWindow : public testing::Test {
 protected:
  DispatcherWindow()
      : router_(kReplicas, *make_policy("least_pending_tokens", 1)),
        dispatcher_(router_, std::ref(replicas_), clock_, {std::chrono::seconds(60), {}, [this] {
                                                             more_ = true;
                                                           }}) {
    clock_.advance(std::chrono::hours(1));
  }

  Replicas::Link& link(std::uint32_t replica) { return replicas_.links.at(replica); }

  void come_back(std::uint32_t replica) {
    router_.table().at(ReplicaId(replica)).ready = true;
    router_.table().at(ReplicaId(replica)).numerics_fingerprint = 1;
    dispatcher_.on_replica_ready(ReplicaId(replica));
    take_turns();
  }

  void die(std::uint32_t replica) {
    router_.table().at(ReplicaId(replica)).ready = false;
    link(replica) = {};
    dispatcher_.on_replica_lost(ReplicaId(replica));
    EXPECT_FALSE(dispatcher_.on_replica_died(ReplicaId(replica), false, "killed by signal 9"));
    take_turns();
  }

  void submit(std::uint32_t choices = kChoices, std::size_t tokens = step::kMaxPromptTokens) {
    Generation request;
    request.prompt_ids.assign(tokens, 7);
    request.stop.max_tokens = 5;
    request.choices = choices;
    dispatcher_.submit(std::move(request), sink_);
    take_turns();
  }

  void take_turns() {
    while (std::exchange(more_, false)) {
      dispatcher_.dispatch_more();
    }
  }

  void tick() {
    clock_.advance(milliseconds(100));
    dispatcher_.on_tick();
    take_turns();
  }

  // The replica reads so many submissions and says what it has.
  void read(std::uint32_t replica, std::size_t count) {
    Replicas::Link& from = link(replica);
    for (; count > 0 && !from.unread.empty(); --count) {
      from.held.push_back(from.unread.front().key);
      from.unread_bytes -= from.unread.front().bytes;
      from.unread.pop_front();
    }
    dispatcher_.on_holding(ReplicaId(replica),
                           {from.sent - from.unread.size(), {}, true, from.held});
    take_turns();
  }

  test::ManualClock clock_;
  Replicas replicas_;
  bool more_ = false;
  std::shared_ptr<Sink> sink_ = std::make_shared<Sink>();
  Router router_;
  Dispatcher dispatcher_;
};

TEST_F(DispatcherWindow, AReplicaThatReadsNothingIsSentNoMoreThanAWindow) {
  come_back(0);
  submit();
  const std::uint64_t sent = link(0).sent;
  for (int i = 0; i < 100; ++i) {
    tick();
  }
  EXPECT_EQ(link(0).sent, sent) << "in 10 s in which nothing was read";
  EXPECT_GE(link(0).unread_bytes, ReplicaLink::kMaxUnhandledBytes) << "it is kept busy";
  EXPECT_LE(replicas_.most_bytes, kMostBytes);
  EXPECT_EQ(dispatcher_.waiting(), kChoices - sent);
  EXPECT_EQ(sink_->error, "");
}

TEST_F(DispatcherWindow, MoreIsSentAsSoonAsSomeIsRead) {
  come_back(0);
  submit();
  for (std::size_t reads = 0; dispatcher_.waiting() > 0; ++reads) {
    ASSERT_LT(reads, kChoices);
    const std::uint64_t sent = link(0).sent;
    read(0, 3);
    ASSERT_EQ(link(0).sent, sent + std::min<std::size_t>(3, kChoices - sent)) << "and no tick came";
  }
  EXPECT_EQ(link(0).sent, kChoices);
  EXPECT_LE(replicas_.most_bytes, kMostBytes);
}

TEST_F(DispatcherWindow, AnotherReplicaTakesWhatOneThatReadsNothingHasNoRoomFor) {
  come_back(0);
  come_back(1);
  submit();
  while (!link(1).unread.empty()) {
    read(1, 1);
  }
  EXPECT_EQ(dispatcher_.waiting(), 0U);
  EXPECT_EQ(link(0).sent + link(1).sent, kChoices);
  EXPECT_GE(link(1).sent, kChoices - kMostBytes / kPromptBytes);
  EXPECT_LE(replicas_.most_bytes, kMostBytes);
}

TEST_F(DispatcherWindow, ANewIncarnationHasAWindowOfItsOwn) {
  come_back(0);
  submit();
  const std::uint64_t before = link(0).sent;
  read(0, 5);
  die(0);
  EXPECT_EQ(dispatcher_.waiting(), kChoices);
  tick();
  EXPECT_EQ(link(0).sent, 0U);
  come_back(0);
  EXPECT_EQ(link(0).sent, before);
  read(0, 1);
  EXPECT_EQ(link(0).sent, before + 1) << "what the dead one had read counts for nothing";
  EXPECT_LE(replicas_.most_bytes, kMostBytes);
}

TEST_F(DispatcherWindow, WhatADeadReplicaHadGoesOnWithinTheWindowOfAnother) {
  come_back(0);
  submit();
  while (link(0).sent < kChoices) {
    read(0, kChoices);
  }
  come_back(1);
  die(0);
  EXPECT_EQ(dispatcher_.waiting(), kChoices - link(1).sent);
  EXPECT_LE(link(1).unread_bytes, kMostBytes);
  while (!link(1).unread.empty()) {
    read(1, kChoices);
  }
  EXPECT_EQ(link(1).sent, kChoices);
  EXPECT_LE(replicas_.most_bytes, kMostBytes);
}

// Else a drained replica would seem to be done with what it has lost.
TEST_F(DispatcherWindow, WhoseReplicaIsLostWaitsFromThatMomentOn) {
  come_back(0);
  submit(4, 100);
  EXPECT_EQ(dispatcher_.waiting(), 0U);
  router_.table().at(ReplicaId(0)).ready = false;
  link(0) = {};
  dispatcher_.on_replica_lost(ReplicaId(0));
  EXPECT_EQ(dispatcher_.waiting(), 4U) << "before anybody knows how it ended";
  EXPECT_TRUE(dispatcher_.on_replica_died(ReplicaId(0), true, "killed by signal 11"));
  EXPECT_EQ(dispatcher_.waiting(), 4U) << "suspects, too";
  dispatcher_.on_replica_failed(ReplicaId(0));
  EXPECT_EQ(dispatcher_.waiting(), 4U);
  come_back(0);
  EXPECT_EQ(dispatcher_.waiting(), 0U);
}

// Those are sent as they come, however many: only bytes are counted.
TEST_F(DispatcherWindow, SmallRequestsDoNotFillIt) {
  come_back(0);
  for (int i = 0; i < 1000; ++i) {
    submit(1, 100);
  }
  EXPECT_EQ(link(0).sent, 1000U);
}

}  // namespace
}  // namespace phalanx::dispatch
