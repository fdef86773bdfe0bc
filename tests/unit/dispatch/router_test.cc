// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/router.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/step/limits.h"
#include "phalanx/step/prefix_hash.h"
#include "phalanx/wire/limits.h"

namespace phalanx::dispatch {
namespace {

wire::SequenceKey key(std::uint64_t request) {
  return {RequestId(request), ChoiceIndex(0), Attempt(1)};
}

Router make_router(std::size_t replicas) {
  Router router(replicas, *make_policy("least_pending_tokens", 1));
  for (std::uint32_t i = 0; i < replicas; ++i) {
    router.table().at(ReplicaId(i)).ready = true;
    router.table().at(ReplicaId(i)).numerics_fingerprint = 42;
  }
  return router;
}

TEST(Router, SendsWorkOnlyToReadyReplicas) {
  Router router = make_router(2);
  router.table().at(ReplicaId(0)).ready = false;
  EXPECT_EQ(router.dispatch(key(1), {10, 10}, SteadyTime{}), ReplicaId(1));
  EXPECT_EQ(router.dispatch(key(2), {10, 10}, SteadyTime{}), ReplicaId(1));
  router.table().at(ReplicaId(1)).draining = true;
  EXPECT_EQ(router.dispatch(key(3), {10, 10}, SteadyTime{}), std::nullopt);
  EXPECT_EQ(router.ledger().open_attempts(ReplicaId(1)), 2U);
}

// What a replica would refuse is not sent: it would come back, and be sent again.
TEST(Router, GivesAReplicaNoMoreThanItQueues) {
  Router router = make_router(1);
  for (std::uint64_t i = 0; i < wire::kMaxQueuedChoices; ++i) {
    ASSERT_EQ(router.dispatch(key(i), {1, 1}, SteadyTime{}), ReplicaId(0));
  }
  EXPECT_EQ(router.dispatch(key(wire::kMaxQueuedChoices), {1, 1}, SteadyTime{}), std::nullopt);
  EXPECT_TRUE(router.any_serves(SteadyTime{})) << "it has no room, and serves";
  EXPECT_TRUE(router.any_serves(SteadyTime{}, {.fingerprint = 42}));
  EXPECT_FALSE(router.any_serves(SteadyTime{}, {.fingerprint = 43}));
  router.table().at(ReplicaId(0)).reserved = true;
  EXPECT_FALSE(router.any_serves(SteadyTime{})) << "suspects have it";
  EXPECT_TRUE(router.any_serves(SteadyTime{}, {.only = ReplicaId(0)}));
  router.table().at(ReplicaId(0)).reserved = false;
  router.settle(ReplicaId(0), key(7));
  EXPECT_EQ(router.dispatch(key(wire::kMaxQueuedChoices), {1, 1}, SteadyTime{}), ReplicaId(0));
}

TEST(Router, OthersFollowAProbeAsSoonAsAPartOfItsPromptIsComputed) {
  Router router = make_router(1);
  for (int i = 0; i < 3; ++i) {
    router.table().at(ReplicaId(0)).breaker.on_failure(SteadyTime{});
  }
  const SteadyTime later = SteadyTime{} + std::chrono::minutes(1);
  ASSERT_EQ(router.dispatch(key(1), {10'000, 10}, later), ReplicaId(0));
  router.report(ReplicaId(0), key(1), {10'000, 10});
  router.report(ReplicaId(0), key(2), {10, 10});  // nobody's
  EXPECT_FALSE(router.any_serves(later));
  router.report(ReplicaId(0), key(1), {9'000, 10});
  EXPECT_TRUE(router.any_serves(later));
  EXPECT_EQ(router.ledger().pending(ReplicaId(0)), (Remainder{9'000, 10}));
}

TEST(Router, DrainedReplicasFinishWhatNobodyElseCan) {
  Router router = make_router(2);
  ReplicaTable& table = router.table();
  table.at(ReplicaId(0)).alive = table.at(ReplicaId(1)).alive = true;
  table.at(ReplicaId(1)).draining = true;
  table.at(ReplicaId(1)).ready = false;  // as supervision tells of a drained one
  table.at(ReplicaId(0)).ready = false;
  EXPECT_EQ(router.dispatch(key(1), {10, 10}, SteadyTime{}), std::nullopt)
      << "the other comes back";
  table.at(ReplicaId(0)).failed = true;
  EXPECT_EQ(router.dispatch(key(1), {10, 10}, SteadyTime{}), ReplicaId(1));
  table.at(ReplicaId(0)).failed = false;
  table.at(ReplicaId(0)).draining = true;
  EXPECT_EQ(router.dispatch(key(2), {10, 10}, SteadyTime{}), ReplicaId(0));
  table.at(ReplicaId(0)).alive = false;
  EXPECT_EQ(router.dispatch(key(3), {10, 10}, SteadyTime{}), ReplicaId(1));
  EXPECT_EQ(table.open_count(), 0U) << "nothing new is taken";
}

TEST(Router, WeighsByPendingTokensNotByRequests) {
  Router router = make_router(2);
  EXPECT_EQ(router.dispatch(key(1), {1000, 0}, SteadyTime{}), ReplicaId(0));
  for (std::uint64_t i = 2; i < 12; ++i) {
    EXPECT_EQ(router.dispatch(key(i), {50, 40}, SteadyTime{}), ReplicaId(1));
  }
}

// Hashes of a prompt of so many full blocks.
std::vector<std::uint64_t> hashes(std::size_t blocks, TokenId first = 0) {
  std::vector<TokenId> tokens(blocks * step::kBlockTokens);
  std::iota(tokens.begin(), tokens.end(), first);
  std::vector<std::uint64_t> result;
  step::extend_prefix_hashes(7, "", tokens, result);
  return result;
}

TEST(Router, CountsOnlyWhatAReplicaWouldHaveToCompute) {
  Router router = make_router(2);
  const std::vector<std::uint64_t> prefix = hashes(3);
  router.prefixes().apply(ReplicaId(1), {.cleared = true, .published = prefix, .evicted = {}});
  EXPECT_EQ(router.dispatch(key(1), {{100, 10}, prefix}, SteadyTime{}), ReplicaId(1));
  EXPECT_EQ(router.ledger().pending(ReplicaId(1)), (Remainder{4, 10}));
  // It owes 14 now; another prompt is better computed elsewhere.
  const std::vector<std::uint64_t> other = hashes(3, 7);
  EXPECT_EQ(router.dispatch(key(2), {{100, 10}, other}, SteadyTime{}), ReplicaId(0));
  EXPECT_EQ(router.ledger().pending(ReplicaId(0)), (Remainder{100, 10}));
}

TEST(Router, SendsAKnownPromptElsewhereWhereTheLoadOutweighsIt) {
  Router router = make_router(2);
  const std::vector<std::uint64_t> prefix = hashes(3);
  router.prefixes().apply(ReplicaId(1), {.cleared = true, .published = prefix, .evicted = {}});
  router.ledger().book(ReplicaId(1), key(90), {0, 97});
  EXPECT_EQ(router.dispatch(key(1), {{100, 10}, prefix}, SteadyTime{}), ReplicaId(0));
}

TEST(Router, ForgetsThePrefixesOfAnIncarnationThatIsOver) {
  Router router = make_router(2);
  const std::vector<std::uint64_t> prefix = hashes(3);
  router.prefixes().apply(ReplicaId(1), {.cleared = true, .published = prefix, .evicted = {}});
  EXPECT_EQ(router.prefixes().known_tokens(ReplicaId(1), prefix), 96U);
  router.prefixes().apply(ReplicaId(1),
                          {.cleared = false, .published = {}, .evicted = {prefix[2]}});
  EXPECT_EQ(router.prefixes().known_tokens(ReplicaId(1), prefix), 64U);
  EXPECT_TRUE(router.lose(ReplicaId(1)).empty());
  EXPECT_EQ(router.prefixes().known_tokens(ReplicaId(1), prefix), 0U);
}

TEST(Router, BooksAPromptOnceWhereItsChoicesShareIt) {
  Router router = make_router(1);
  EXPECT_EQ(router.dispatch(key(1), {{100, 10}}, SteadyTime{}), ReplicaId(0));
  EXPECT_EQ(router.dispatch(key(2), {{105, 10}, {}, ReplicaId(0), 100}, SteadyTime{}),
            ReplicaId(0));
  EXPECT_EQ(router.ledger().pending(ReplicaId(0)), (Remainder{100 + 9, 20}))
      << "of the prompt the last 4 tokens are no full block";
}

// The block of the last token is computed, whatever is known.
TEST(Router, BooksTheLastBlockOfAPromptThatIsKnown) {
  Router router = make_router(1);
  const std::vector<std::uint64_t> prefix = hashes(3);
  router.prefixes().apply(ReplicaId(0), {.cleared = true, .published = prefix, .evicted = {}});
  std::uint64_t requests = 0;
  const auto booked = [&](const Work& work) {
    const std::uint64_t before = router.ledger().pending(ReplicaId(0)).to_compute;
    EXPECT_EQ(router.dispatch(key(++requests), work, SteadyTime{}), ReplicaId(0));
    return router.ledger().pending(ReplicaId(0)).to_compute - before;
  };
  EXPECT_EQ(booked({{96, 10}, prefix}), 32U);
  EXPECT_EQ(booked({{97, 10}, prefix}), 1U);
  EXPECT_EQ(booked({{96, 10}, {}, ReplicaId(0), 96}), 32U);
  EXPECT_EQ(booked({{97, 9}, {}, ReplicaId(0), 96}), 1U) << "with a token that was produced";
  EXPECT_EQ(booked({{1, 10}, {}, ReplicaId(0), 1}), 1U);
}

TEST(Router, DoesNotTakeAFailingReplicaForAnIdleOne) {
  Router router = make_router(2);
  const SteadyTime now{};
  for (std::uint64_t i = 1; i <= 3; ++i) {
    router.table().at(ReplicaId(0)).breaker.on_failure(now);
  }
  for (std::uint64_t i = 1; i <= 20; ++i) {
    EXPECT_EQ(router.dispatch(key(i), {100, 100}, now), ReplicaId(1));
  }
  EXPECT_EQ(router.dispatch(key(30), {1, 1}, now + std::chrono::seconds(6)), ReplicaId(0))
      << "the probe";
  EXPECT_EQ(router.dispatch(key(31), {1, 1}, now + std::chrono::seconds(6)), ReplicaId(1))
      << "while it is probed";
}

TEST(Router, AvoidsTheReplicaThatFailedUnlessItIsTheOnlyOne) {
  Router router = make_router(2);
  EXPECT_EQ(router.dispatch(key(1), {1, 1}, SteadyTime{}, {.avoid = ReplicaId(0)}), ReplicaId(1));
  router.table().at(ReplicaId(1)).ready = false;
  EXPECT_EQ(router.dispatch(key(2), {1, 1}, SteadyTime{}, {.avoid = ReplicaId(0)}), ReplicaId(0));
}

TEST(Router, ContinuesAStreamOnlyOnEqualNumerics) {
  Router router = make_router(2);
  router.table().at(ReplicaId(1)).numerics_fingerprint = 43;
  EXPECT_EQ(
      router.dispatch(key(1), {1, 1}, SteadyTime{}, {.avoid = ReplicaId(0), .fingerprint = 43}),
      ReplicaId(1));
  EXPECT_EQ(router.dispatch(key(2), {1, 1}, SteadyTime{}, {.fingerprint = 44}), std::nullopt);
}

}  // namespace
}  // namespace phalanx::dispatch
