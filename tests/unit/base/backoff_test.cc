// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/backoff.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

using std::chrono::milliseconds;

BackoffOptions exact() {
  return {milliseconds(100), milliseconds(1000), 0.0};
}

TEST(Backoff, DoublesUpToTheCap) {
  Backoff backoff(exact(), 1);
  EXPECT_EQ(backoff.next(), milliseconds(100));
  EXPECT_EQ(backoff.next(), milliseconds(200));
  EXPECT_EQ(backoff.next(), milliseconds(400));
  EXPECT_EQ(backoff.next(), milliseconds(800));
  EXPECT_EQ(backoff.next(), milliseconds(1000));
  EXPECT_EQ(backoff.next(), milliseconds(1000));
}

TEST(Backoff, StartsAgainAfterReset) {
  Backoff backoff(exact(), 1);
  static_cast<void>(backoff.next());
  static_cast<void>(backoff.next());
  EXPECT_EQ(backoff.failures(), 2);
  backoff.reset();
  EXPECT_EQ(backoff.failures(), 0);
  EXPECT_EQ(backoff.next(), milliseconds(100));
}

TEST(Backoff, StaysAtTheCapForever) {
  Backoff backoff(exact(), 1);
  for (int i = 0; i < 200; ++i) {
    static_cast<void>(backoff.next());
  }
  EXPECT_EQ(backoff.next(), milliseconds(1000));
}

TEST(Backoff, JittersWithinItsBounds) {
  Backoff backoff({milliseconds(100), milliseconds(100), 0.2}, 7);
  Duration least = Duration::max();
  Duration most = Duration::zero();
  for (int i = 0; i < 1000; ++i) {
    const Duration delay = backoff.next();
    least = std::min(least, delay);
    most = std::max(most, delay);
  }
  EXPECT_GE(least, milliseconds(80));
  EXPECT_LE(most, milliseconds(120));
  EXPECT_LT(least, milliseconds(85));
  EXPECT_GT(most, milliseconds(115));
}

TEST(Backoff, IsDeterministicInItsSeed) {
  Backoff first({}, 3);
  Backoff same({}, 3);
  Backoff other({}, 4);
  const Duration delay = first.next();
  EXPECT_EQ(delay, same.next());
  EXPECT_NE(delay, other.next());
}

}  // namespace
}  // namespace phalanx
