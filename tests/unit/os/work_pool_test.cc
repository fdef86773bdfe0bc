// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/work_pool.h"

#include <atomic>
#include <future>
#include <thread>

#include <gtest/gtest.h>

namespace phalanx::os {
namespace {

TEST(WorkPool, WorksElsewhereAndAnswersOnTheLoop) {
  EventLoop loop;
  WorkPool pool(loop, {2, 8});
  std::thread::id worker;
  std::thread::id answer;
  ASSERT_TRUE(pool.submit([&] { worker = std::this_thread::get_id(); },
                          [&] {
                            answer = std::this_thread::get_id();
                            loop.stop();
                          }));
  loop.run();
  EXPECT_EQ(answer, std::this_thread::get_id());
  EXPECT_NE(worker, answer);
}

TEST(WorkPool, RefusesWorkWhenTheQueueIsFull) {
  EventLoop loop;
  std::promise<void> begun;
  std::promise<void> release;
  std::shared_future<void> gate = release.get_future().share();
  WorkPool pool(loop, {1, 2});
  std::atomic<int> done{0};
  ASSERT_TRUE(pool.submit(
      [&] {
        begun.set_value();
        gate.wait();
      },
      [&] { ++done; }));
  begun.get_future().wait();
  ASSERT_TRUE(pool.submit([] {}, [&] { ++done; }));
  ASSERT_TRUE(pool.submit([] {},
                          [&] {
                            ++done;
                            loop.stop();
                          }));
  const Status refused = pool.submit([] {}, [] {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kResourceExhausted);
  EXPECT_EQ(pool.waiting(), 2U);
  release.set_value();
  loop.run();
  EXPECT_EQ(done, 3);
  EXPECT_EQ(pool.waiting(), 0U);
}

TEST(WorkPool, DropsWhatHasNotBegunWhenDestroyed) {
  EventLoop loop;
  std::promise<void> begun;
  std::promise<void> release;
  std::atomic<int> worked{0};
  std::atomic<int> done{0};
  auto pool = std::make_unique<WorkPool>(loop, WorkPoolOptions{1, 8});
  ASSERT_TRUE(pool->submit(
      [&] {
        begun.set_value();
        release.get_future().wait();
        ++worked;
      },
      [&] { ++done; }));
  begun.get_future().wait();
  ASSERT_TRUE(pool->submit([&] { ++worked; }, [&] { ++done; }));
  std::thread opener([&] { release.set_value(); });
  pool.reset();
  opener.join();
  loop.post([&] { loop.stop(); });
  loop.run();
  EXPECT_GE(worked, 1) << "the destructor waits for what has begun";
  EXPECT_EQ(done, 0) << "nobody is there any more to hear of it";
}

}  // namespace
}  // namespace phalanx::os
