// SPDX-License-Identifier: Apache-2.0
#include "phalanx/dispatch/waiting_queue.h"

#include <gtest/gtest.h>

namespace phalanx::dispatch {
namespace {

using std::chrono::seconds;

ChoiceName name(std::uint64_t request, std::uint32_t choice = 0) {
  return {RequestId(request), choice};
}

TEST(WaitingQueue, KeepsALinePerNumericsInTheOrderOfRequests) {
  WaitingQueue queue;
  queue.add(name(3), {}, SteadyTime{});
  queue.add(name(2), 7, SteadyTime{});
  queue.add(name(1, 1), {}, SteadyTime{});
  queue.add(name(1, 0), {}, SteadyTime{});
  EXPECT_EQ(queue.size(), 4U);
  EXPECT_EQ(queue.lines(), (std::vector<Numerics>{7, {}}));
  EXPECT_EQ(queue.first({}), name(1, 0));
  EXPECT_EQ(queue.first(7), name(2));
  EXPECT_EQ(queue.first(8), std::nullopt);
  queue.remove(name(1, 0));
  queue.remove(name(1, 0));
  EXPECT_EQ(queue.first({}), name(1, 1));
  queue.remove(name(2));
  EXPECT_EQ(queue.lines(), (std::vector<Numerics>{{}}));
}

TEST(WaitingQueue, WhoIsRenewedKeepsItsPlace) {
  WaitingQueue queue;
  const SteadyTime start{};
  queue.add(name(1), {}, start);
  queue.add(name(2), {}, start + seconds(1));
  queue.renew(name(1), start + seconds(2));
  EXPECT_EQ(queue.first({}), name(1));
  EXPECT_EQ(queue.waiting_since(start + seconds(1)), name(2));
  queue.remove(name(2));
  EXPECT_EQ(queue.waiting_since(start + seconds(1)), std::nullopt);
  EXPECT_EQ(queue.waiting_since(start + seconds(2)), name(1));
}

TEST(WaitingQueue, KnowsWhoHasWaitedTooLong) {
  WaitingQueue queue;
  const SteadyTime start{};
  queue.add(name(2), {}, start);
  queue.add(name(1), {}, start + seconds(1));
  queue.add(name(2), {}, start + seconds(5));  // keeps its time
  EXPECT_EQ(queue.waiting_since(start - seconds(1)), std::nullopt);
  EXPECT_EQ(queue.waiting_since(start), name(2));
  queue.remove(name(2));
  EXPECT_EQ(queue.waiting_since(start), std::nullopt);
  EXPECT_EQ(queue.waiting_since(start + seconds(1)), name(1));
  queue.remove(name(1));
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(queue.lines().empty());
}

}  // namespace
}  // namespace phalanx::dispatch
