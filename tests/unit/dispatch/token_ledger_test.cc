// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/token_ledger.h"

#include <random>

#include <gtest/gtest.h>

namespace phalanx::dispatch {
namespace {

wire::SequenceKey key(std::uint64_t request, std::uint32_t attempt = 1) {
  return {RequestId(request), ChoiceIndex(0), Attempt(attempt)};
}

TEST(TokenLedger, IsZeroAfterEveryAttemptHasEnded) {
  TokenLedger ledger(2);
  ledger.book(ReplicaId(0), key(1), {100, 20});
  ledger.book(ReplicaId(1), key(2), {10, 5});
  ledger.set(ReplicaId(0), key(1), {0, 7});
  ledger.settle(ReplicaId(0), key(1));
  ledger.settle(ReplicaId(1), key(2));
  EXPECT_EQ(ledger.pending(ReplicaId(0)), Remainder{});
  EXPECT_EQ(ledger.pending(ReplicaId(1)), Remainder{});
}

TEST(TokenLedger, SetsAbsoluteRemaindersSoThatRepeatsChangeNothing) {
  TokenLedger ledger(1);
  ledger.book(ReplicaId(0), key(1), {100, 20});
  for (int i = 0; i < 3; ++i) {
    ledger.set(ReplicaId(0), key(1), {40, 20});
  }
  EXPECT_EQ(ledger.pending(ReplicaId(0)), (Remainder{40, 20}));
  ledger.set(ReplicaId(0), key(1), {100, 19});  // preempted: everything is to be computed again
  EXPECT_EQ(ledger.pending(ReplicaId(0)), (Remainder{100, 19}));
}

TEST(TokenLedger, IgnoresReportsOfEndedAttempts) {
  TokenLedger ledger(1);
  ledger.book(ReplicaId(0), key(1), {8, 8});
  ledger.settle(ReplicaId(0), key(1));
  ledger.set(ReplicaId(0), key(1), {0, 5});
  ledger.settle(ReplicaId(0), key(1));
  EXPECT_EQ(ledger.open_attempts(ReplicaId(0)), 0U);
  EXPECT_EQ(ledger.recount(ReplicaId(0)), Remainder{});
}

TEST(TokenLedger, SettlesEverythingOfADeadReplica) {
  TokenLedger ledger(2);
  ledger.book(ReplicaId(0), key(1), {8, 8});
  ledger.book(ReplicaId(0), key(2), {9, 9});
  ledger.book(ReplicaId(1), key(3), {1, 1});
  EXPECT_EQ(ledger.settle_all(ReplicaId(0)), (std::vector{key(1), key(2)}));
  EXPECT_EQ(ledger.open_attempts(ReplicaId(0)), 0U);
  EXPECT_EQ(ledger.pending(ReplicaId(1)), (Remainder{1, 1}));
}

TEST(TokenLedger, EqualsItsRecountThroughRandomHistories) {
  std::mt19937 random(20260);
  TokenLedger ledger(3);
  std::vector<std::pair<ReplicaId, wire::SequenceKey>> open;
  const auto draw = [&](std::uint32_t limit) {
    return static_cast<std::uint32_t>(random() % limit);
  };
  for (std::uint64_t i = 1; i < 5000; ++i) {
    const std::uint32_t action = draw(8);
    if (action < 3 || open.empty()) {
      open.emplace_back(ReplicaId(draw(3)), key(i));
      ledger.book(open.back().first, open.back().second, {draw(500), draw(100)});
    } else if (action < 6) {
      const auto& [replica, sequence] = open[draw(static_cast<std::uint32_t>(open.size()))];
      ledger.set(replica, sequence, {draw(500), draw(100)});
    } else if (action == 6) {
      const std::size_t index = draw(static_cast<std::uint32_t>(open.size()));
      ledger.settle(open[index].first, open[index].second);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(index));
    } else if (draw(20) == 0) {
      const ReplicaId dead(draw(3));
      ledger.settle_all(dead);
      std::erase_if(open, [dead](const auto& entry) { return entry.first == dead; });
    }
    for (std::uint32_t replica = 0; replica < 3; ++replica) {
      ASSERT_EQ(ledger.pending(ReplicaId(replica)), ledger.recount(ReplicaId(replica)));
    }
  }
  for (const auto& [replica, sequence] : open) {
    ledger.settle(replica, sequence);
  }
  for (std::uint32_t replica = 0; replica < 3; ++replica) {
    EXPECT_EQ(ledger.pending(ReplicaId(replica)), Remainder{});
  }
}

}  // namespace
}  // namespace phalanx::dispatch
