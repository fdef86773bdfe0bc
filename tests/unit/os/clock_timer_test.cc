// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/clock_timer.h"

#include <chrono>
#include <memory>

#include <gtest/gtest.h>

#include "support/manual_clock.h"

namespace phalanx::os {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ClockTimer, CallsWhenTheDelayHasPassedByItsClock) {
  EventLoop loop;
  test::ManualClock clock;
  int calls = 0;
  const auto timer = call_after(loop, clock, milliseconds(5), [&] {
    ++calls;
    loop.stop();
  });
  const auto later = loop.call_after(milliseconds(50), [&] {
    EXPECT_EQ(calls, 0) << "the clock stood still";
    clock.advance(milliseconds(5));
  });
  const auto limit = loop.call_after(seconds(10), [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(calls, 1);
}

TEST(ClockTimer, MayDestroyItselfInItsCall) {
  EventLoop loop;
  std::unique_ptr<EventLoop::Handle> timer;
  timer = call_after(loop, steady_clock(), milliseconds(1), [&] {
    timer.reset();
    loop.stop();
  });
  loop.run();
  EXPECT_EQ(timer, nullptr);
}

TEST(ClockTimer, DoesNotCallWhenItWasDestroyed) {
  EventLoop loop;
  auto timer = call_after(loop, steady_clock(), milliseconds(1), [] { FAIL(); });
  timer.reset();
  const auto end = loop.call_after(milliseconds(5), [&] { loop.stop(); });
  loop.run();
}

}  // namespace
}  // namespace phalanx::os
