// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/event_loop.h"

#include <unistd.h>

#include <csignal>
#include <ctime>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/os/unique_fd.h"

namespace phalanx::os {
namespace {

using std::chrono::milliseconds;

TEST(EventLoop, RunsPostedWorkInOrder) {
  EventLoop loop;
  std::vector<int> order;
  loop.post([&] { order.push_back(1); });
  loop.post([&] {
    order.push_back(2);
    loop.post([&] {
      order.push_back(4);
      loop.stop();
    });
  });
  loop.post([&] { order.push_back(3); });
  loop.run();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
}

TEST(EventLoop, TakesWorkFromOtherThreads) {
  EventLoop loop;
  std::thread::id where;
  std::thread other([&] {
    loop.post([&] {
      where = std::this_thread::get_id();
      loop.stop();
    });
  });
  loop.run();
  other.join();
  EXPECT_EQ(where, std::this_thread::get_id());
}

TEST(EventLoop, CallsAfterADelayInOrderOfTime) {
  EventLoop loop;
  std::vector<int> order;
  const auto late = loop.call_after(milliseconds(4), [&] {
    order.push_back(2);
    loop.stop();
  });
  const auto early = loop.call_after(milliseconds(1), [&] { order.push_back(1); });
  loop.run();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(EventLoop, DoesNotCallAHandleThatWasDestroyed) {
  EventLoop loop;
  bool called = false;
  auto timer = loop.call_after(milliseconds(1), [&] { called = true; });
  auto tick = loop.call_every(milliseconds(1), [&] { called = true; });
  timer.reset();
  tick.reset();
  const auto end = loop.call_after(milliseconds(5), [&] { loop.stop(); });
  loop.run();
  EXPECT_FALSE(called);
}

TEST(EventLoop, LetsAPeriodicCallbackDestroyItsOwnHandle) {
  EventLoop loop;
  int ticks = 0;
  std::unique_ptr<EventLoop::Handle> tick;
  std::unique_ptr<EventLoop::Handle> end;
  tick = loop.call_every(milliseconds(1), [&] {
    if (++ticks == 3) {
      tick.reset();
      end = loop.call_after(milliseconds(10), [&] { loop.stop(); });
    }
  });
  loop.run();
  EXPECT_EQ(ticks, 3);
}

TEST(EventLoop, TellsOfAReadableDescriptorUntilItIsRead) {
  EventLoop loop;
  Pipe pipe = *make_pipe();
  ASSERT_EQ(::write(pipe.write.get(), "ab", 2), 2);
  int calls = 0;
  std::string read;
  const auto watch = *loop.watch_readable(pipe.read.get(), [&] {
    char letter = 0;
    ASSERT_EQ(::read(pipe.read.get(), &letter, 1), 1);
    read += letter;
    if (++calls == 2) {
      loop.stop();
    }
  });
  loop.run();
  EXPECT_EQ(read, "ab");
}

TEST(EventLoop, TellsOfEndOfFile) {
  EventLoop loop;
  Pipe pipe = *make_pipe();
  std::unique_ptr<EventLoop::Handle> watch;
  bool ended = false;
  watch = *loop.watch_readable(pipe.read.get(), [&] {
    char letter = 0;
    ended = ::read(pipe.read.get(), &letter, 1) == 0;
    watch.reset();
    loop.stop();
  });
  pipe.write.reset();
  loop.run();
  EXPECT_TRUE(ended);
}

TEST(EventLoop, SaysWhatItCannotWatch) {
  EventLoop loop;
  const auto watch = loop.watch_readable(-1, [] {});
  ASSERT_FALSE(watch);
  EXPECT_EQ(watch.error().code(), Code::kInternal) << watch.error().to_string();
}

TEST(EventLoop, LeavesTheDescriptorToItsOwner) {
  Pipe pipe = *make_pipe();
  {
    EventLoop loop;
    const auto watch = *loop.watch_readable(pipe.read.get(), [] {});
  }
  ASSERT_EQ(::write(pipe.write.get(), "x", 1), 1);
  char letter = 0;
  EXPECT_EQ(::read(pipe.read.get(), &letter, 1), 1);
}

TEST(EventLoop, DeliversSignalsOnTheLoop) {
  EventLoop loop;
  int first_calls = 0;
  int second_calls = 0;
  const auto stop_when_both_know = [&] {
    if (first_calls > 0 && second_calls > 0) {
      loop.stop();
    }
  };
  const auto first = loop.watch_signal(SIGHUP, [&](int signal) {
    first_calls += signal == SIGHUP ? 1 : 0;
    stop_when_both_know();
  });
  auto gone = loop.watch_signal(SIGHUP, [](int) { ADD_FAILURE() << "this watch was ended"; });
  const auto second = loop.watch_signal(SIGHUP, [&](int signal) {
    second_calls += signal == SIGHUP ? 1 : 0;
    stop_when_both_know();
  });
  gone.reset();
  loop.post([] { ::raise(SIGHUP); });
  loop.run();
  EXPECT_EQ(first_calls, 1);
  EXPECT_EQ(second_calls, 1);
}

TEST(EventLoop, MeasuresHowLongACallbackHeldItUp) {
  EventLoop loop;
  const auto hog = loop.call_after(milliseconds(15), [] {
    const SteadyTime end = steady_clock().now() + milliseconds(40);
    while (steady_clock().now() < end) {
    }
  });
  const auto end = loop.call_after(milliseconds(90), [&] { loop.stop(); });
  loop.run();
  EXPECT_GE(loop.take_longest_lag(), milliseconds(40));
  EXPECT_EQ(loop.take_longest_lag(), Duration::zero());
}

// Keeps the processor, and not only time, for so long.
void burn(Duration duration) {
  timespec begin{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  timespec now{};
  do {
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while (std::chrono::seconds(now.tv_sec - begin.tv_sec) +
               std::chrono::nanoseconds(now.tv_nsec - begin.tv_nsec) <
           duration);
}

TEST(EventLoop, MeasuresTheCpuTimeOfEachCallback) {
  EventLoop loop;
  EventLoop::CallbackTimes slept;
  loop.post([] { std::this_thread::sleep_for(milliseconds(30)); });
  loop.post([&] { slept = loop.callback_times(); });
  loop.post([] { burn(milliseconds(8)); });
  loop.post([] { burn(milliseconds(5)); });
  loop.post([&] { loop.stop(); });
  loop.run();
  EXPECT_LT(slept.longest, milliseconds(20)) << "waiting is no work";
  EXPECT_GE(loop.callback_times().longest, milliseconds(8));
  EXPECT_GE(loop.callback_times().too_long, 2U);
}

TEST(EventLoop, TellsWhichCallbackWasTheLongest) {
  EventLoop loop;
  std::string first;
  loop.post([&] {
    loop.name_callback("first");
    loop.name_callback("first, second half");
    burn(milliseconds(20));
  });
  loop.post([&] {
    first = loop.callback_times().longest_name;
    loop.name_callback("short");
  });
  loop.post([] { burn(milliseconds(50)); });
  loop.post([&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(first, "first, second half");
  EXPECT_STREQ(loop.callback_times().longest_name, "unnamed") << "a name is that of one callback";
}

TEST(EventLoop, BlamesThePartThatTookLongest) {
  EventLoop loop;
  loop.post([&] {
    loop.name_callback("short");
    burn(milliseconds(2));
    loop.name_callback("long");
    burn(milliseconds(20));
    loop.name_callback("short again");
    burn(milliseconds(2));
  });
  loop.post([&] { loop.stop(); });
  loop.run();
  EXPECT_STREQ(loop.callback_times().longest_name, "long");
  EXPECT_GE(loop.callback_times().longest, milliseconds(24)) << "it is one callback all the same";
}

TEST(EventLoop, BoundsACallbackFromItsBeginning) {
  EventLoop loop;
  loop.post([] { burn(milliseconds(20)); });
  bool passed_at_once = true;
  bool passed_later = false;
  loop.post([&] {
    const CpuTimeLimit limit = loop.callback_limit(milliseconds(10));
    passed_at_once = limit.passed();
    burn(milliseconds(12));
    passed_later = limit.passed();
    loop.stop();
  });
  loop.run();
  EXPECT_FALSE(passed_at_once) << "what ran before costs nothing of it";
  EXPECT_TRUE(passed_later);
}

TEST(EventLoop, CountsWhatACallbackHasDoneBeforeItAsks) {
  EventLoop loop;
  bool passed = false;
  loop.post([&] {
    burn(milliseconds(8));
    const CpuTimeLimit limit = loop.callback_limit(milliseconds(10));
    burn(milliseconds(11));
    passed = limit.passed();
    loop.stop();
  });
  loop.run();
  EXPECT_TRUE(passed);
}

TEST(EventLoop, TellsOnceOfACallbackThatWasTheLongestSoFar) {
  EventLoop loop;
  std::vector<bool> told;
  const auto ask = [&] { told.push_back(loop.take_new_longest() != nullptr); };
  loop.post(ask);
  loop.post([] { burn(milliseconds(20)); });
  loop.post(ask);
  loop.post(ask);
  loop.post([] { burn(milliseconds(5)); });
  loop.post(ask);
  loop.post([&] { loop.reset_callback_times(); });
  loop.post([] { burn(milliseconds(5)); });
  loop.post(ask);
  loop.post([&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(told, (std::vector<bool>{false, true, false, false, true}));
}

TEST(EventLoop, HearsAStopThatComesBeforeItRuns) {
  EventLoop loop;
  bool ran = false;
  loop.post([&] {
    ran = true;
    loop.stop();
  });
  loop.stop();
  loop.run();
  ASSERT_FALSE(ran);
  loop.run();
  EXPECT_TRUE(ran) << "one stop ends one run";
}

TEST(EventLoop, ForgetsCallbackTimesWhenTold) {
  EventLoop loop;
  loop.post([] { burn(milliseconds(50)); });
  loop.post([&] {
    burn(milliseconds(50));
    loop.reset_callback_times();
  });
  loop.post([&] { loop.stop(); });
  loop.run();
  EXPECT_LT(loop.callback_times().longest, milliseconds(50));
}

}  // namespace
}  // namespace phalanx::os
