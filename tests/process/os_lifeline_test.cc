// SPDX-License-Identifier: Apache-2.0
// A child's main thread dies: its lifeline tells at once.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "phalanx/os/lifeline.h"

#include "support/eventually.h"
#include "test_child.h"

namespace phalanx::os {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::child_plan;
using test::receive_record;
using test::send_record;

// Holds its lifeline and, if told to, a heap of memory that makes the kernel slow at ending it.
int hold(ControlSocket& socket) {
  ControlMessage start = receive_record(socket);
  const Lifeline lifeline = *Lifeline::adopt(std::move(start.fds.at(0)));
  auto owner = LifelineOwner::acquire(lifeline);
  if (!owner) {
    return 1;
  }
  const std::size_t bytes = std::stoul(start.bytes) << 20;
  std::vector<char> ballast(bytes, 1);
  lifeline.progress()[7].fetch_add(5);
  lifeline.flight_area()[0] = std::byte{9};
  send_record(socket, "held");
  const std::string order = receive_record(socket).bytes;
  if (order == "die by exit with the lifeline held") {
    ::_exit(3);
  }
  if (order == "fail, and end when told") {
    owner->fail();
    static_cast<void>(receive_record(socket));
  }
  return static_cast<int>(ballast[bytes / 2]) - 1;
}

const test::ChildModes kModes{{"hold", hold}};

struct Held {
  explicit Held(int megabytes = 1) {
    send_record(child.control(), std::to_string(megabytes), {lifeline.fd()});
    static_cast<void>(receive_record(child.control()));
  }
  Lifeline lifeline = *Lifeline::create();
  ChildProcess child = *ChildProcess::spawn(child_plan("hold"));
};

TEST(Lifeline, CarriesProgressAndLastWords) {
  Held held;
  EXPECT_EQ(held.lifeline.progress_sum(), 5U);
  ASSERT_TRUE(held.child.signal(SIGKILL));
  ASSERT_TRUE(held.child.wait_exit(steady_clock().now() + seconds(10)));
  EXPECT_EQ(held.lifeline.flight_area()[0], std::byte{9}) << "it outlives its writer";
}

TEST(Lifeline, HasOneOwnerInItsLife) {
  const Lifeline lifeline = *Lifeline::create();
  {
    const auto owner = LifelineOwner::acquire(lifeline);
    ASSERT_TRUE(owner);
    std::thread([&] { EXPECT_FALSE(LifelineOwner::acquire(lifeline)); }).join();
  }
  EXPECT_EQ(LifelineOwner::acquire(lifeline).error().code(), Code::kFailedPrecondition);
}

TEST(Lifeline, AdoptsOnlyALifeline) {
  EXPECT_FALSE(Lifeline::adopt(UniqueFd()));
  const Memfd other = *Memfd::create("test", kLifelineBytes);
  EXPECT_EQ(Lifeline::adopt(UniqueFd(::dup(other.fd()))).error().code(), Code::kInvalidArgument);
  const Memfd small = *Memfd::create("test", 4096);
  EXPECT_FALSE(Lifeline::adopt(UniqueFd(::dup(small.fd()))));
}

TEST(LifelineWatch, TellsOfADeathByAnySignalOrExit) {
  for (const int signal : {SIGKILL, SIGTERM, SIGSEGV}) {
    Held held;
    std::atomic<int> deaths{0};
    const LifelineWatch watch(held.lifeline, [&] { ++deaths; });
    ASSERT_TRUE(held.child.signal(signal));
    EXPECT_TRUE(test::eventually([&] { return deaths == 1; }, seconds(5))) << signal;
  }
  Held held;
  std::atomic<int> deaths{0};
  const LifelineWatch watch(held.lifeline, [&] { ++deaths; });
  send_record(held.child.control(), "die by exit with the lifeline held");
  EXPECT_TRUE(test::eventually([&] { return deaths == 1; }, seconds(5)));
}

TEST(LifelineWatch, TellsOfAFailureBeforeTheProcessEnds) {
  Held held;
  std::atomic<int> deaths{0};
  {
    const LifelineWatch watch(held.lifeline, [&] { ++deaths; });
    send_record(held.child.control(), "fail, and end when told");
    EXPECT_TRUE(test::eventually([&] { return deaths == 1; }, seconds(5)));
    EXPECT_FALSE(held.child.poll_exit());
    send_record(held.child.control(), "end");
    EXPECT_TRUE(held.child.wait_exit(steady_clock().now() + seconds(10)));
  }
  EXPECT_EQ(deaths, 1);
}

TEST(LifelineWatch, TellsOfADeathBeforeItBegan) {
  Held held;
  ASSERT_TRUE(held.child.signal(SIGKILL));
  ASSERT_TRUE(held.child.wait_exit(steady_clock().now() + seconds(10)));
  std::atomic<int> deaths{0};
  const LifelineWatch watch(held.lifeline, [&] { ++deaths; });
  EXPECT_TRUE(test::eventually([&] { return deaths == 1; }, seconds(5)));
}

TEST(LifelineWatch, KeepsSilentAboutAnEndInGoodOrder) {
  Held held;
  std::atomic<int> deaths{0};
  {
    const LifelineWatch watch(held.lifeline, [&] { ++deaths; });
    send_record(held.child.control(), "leave");
    EXPECT_EQ(held.child.wait_exit(steady_clock().now() + seconds(10)), ExitReason(Exited{0}));
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_EQ(deaths, 0);
}

TEST(LifelineWatch, EndsInBoundedTime) {
  const auto time_to_end = [](const Lifeline& lifeline) {
    auto watch = std::make_unique<LifelineWatch>(lifeline, [] {});
    std::this_thread::sleep_for(milliseconds(5));
    const SteadyTime start = steady_clock().now();
    watch.reset();
    return steady_clock().now() - start;
  };
  EXPECT_LT(time_to_end(*Lifeline::create()), seconds(2)) << "nobody came";
  const Held held;
  EXPECT_LT(time_to_end(held.lifeline), seconds(2)) << "the owner lives";
}

// A hung child is not a dead one.
TEST(LifelineWatch, DoesNotTakeAStoppedChildForDead) {
  Held held;
  std::atomic<int> deaths{0};
  const LifelineWatch watch(held.lifeline, [&] { ++deaths; });
  ASSERT_TRUE(held.child.signal(SIGSTOP));
  std::this_thread::sleep_for(milliseconds(150));
  EXPECT_EQ(deaths, 0);
  ASSERT_TRUE(held.child.signal(SIGKILL));
  EXPECT_TRUE(test::eventually([&] { return deaths == 1; }, seconds(5)));
}

// With 64 MB to tear down the pidfd comes late; the lifeline does not.
TEST(Measurement, DeathToCallbackAndToPidfd) {
  std::vector<double> callbacks;
  std::vector<double> pidfds;
  for (int i = 0; i < 20; ++i) {
    Held held(64);
    std::atomic<SteadyTime::rep> told{0};
    const LifelineWatch watch(held.lifeline,
                              [&] { told = steady_clock().now().time_since_epoch().count(); });
    const SteadyTime start = steady_clock().now();
    ASSERT_TRUE(held.child.signal(SIGKILL));
    ASSERT_TRUE(held.child.wait_exit(start + seconds(10)));
    pidfds.push_back(to_milliseconds(steady_clock().now() - start));
    ASSERT_TRUE(test::eventually([&] { return told != 0; }, seconds(5)));
    callbacks.push_back(to_milliseconds(Duration(told.load()) - start.time_since_epoch()));
  }
  std::sort(callbacks.begin(), callbacks.end());
  std::sort(pidfds.begin(), pidfds.end());
  RecordProperty("death_to_callback_ms_p50", std::to_string(callbacks[10]));
  std::printf("SIGKILL to callback: p50 %.3f ms, max %.3f ms; to pidfd: p50 %.3f ms, max %.3f ms\n",
              callbacks[10],
              callbacks.back(),
              pidfds[10],
              pidfds.back());
  EXPECT_LT(callbacks[10], 100.0);
}

}  // namespace
}  // namespace phalanx::os

int main(int argc, char** argv) {
  phalanx::test::play_child(argc, argv, phalanx::os::kModes);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
