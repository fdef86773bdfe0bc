// SPDX-License-Identifier: Apache-2.0
// Also built against a communicator without the abort poll, where the first test must fail.
#include <atomic>
#include <chrono>

#include "group.h"

namespace phalanx::collective {
namespace {

TEST(Communicator, FreesAWaiterWhenTheAbortWordIsRaised) {
  Group group(2);
  group.options().timeout = std::chrono::seconds(1);
  Communicator waiter = group.attach(0);
  Communicator absent = group.attach(1);
  std::atomic<bool> met = false;
  Status result;
  std::thread thread([&] {
    EXPECT_TRUE(waiter.barrier());
    met = true;
    result = waiter.barrier();
  });
  EXPECT_TRUE(absent.barrier());
  while (!met) {
    std::this_thread::yield();
  }
  const auto asleep_by = std::chrono::steady_clock::now() + std::chrono::milliseconds(3);
  while (std::chrono::steady_clock::now() < asleep_by) {
    std::this_thread::yield();
  }
  raise_abort(group.memory());
  const auto raised = std::chrono::steady_clock::now();
  thread.join();
  EXPECT_EQ(code_of(result), Code::kAborted);
  EXPECT_LT(std::chrono::steady_clock::now() - raised, std::chrono::milliseconds(500));
}

TEST(Communicator, FreesASpinningWaiter) {
  Group group(2);
  group.options().timeout = std::chrono::seconds(1);
  group.options().spin = 2'000'000'000;
  Communicator waiter = group.attach(0);
  std::atomic<bool> started = false;
  Status result;
  std::thread thread([&] {
    started = true;
    result = waiter.barrier();
  });
  while (!started) {
    std::this_thread::yield();
  }
  raise_abort(group.memory());
#ifndef PHALANX_MUTATE_NO_ABORT_POLL
  thread.join();
  EXPECT_EQ(code_of(result), Code::kAborted);
#else
  EXPECT_TRUE(group.attach(1).barrier());  // nothing else ends the wait of the mutant
  thread.join();
#endif
}

TEST(Communicator, RefusesEveryOperationAfterAnAbort) {
  Group group(1);
  Communicator communicator = group.attach(0);
  EXPECT_TRUE(communicator.barrier());
  EXPECT_EQ(communicator.abort_word().load(), 0U);
  communicator.abort();
  EXPECT_NE(communicator.abort_word().load(), 0U);
  std::vector<std::byte> data(8);
  std::vector<float> sum(8);
  const float* nodes = sum.data();
  const auto plan = TreePlan::make(1, 1);
  EXPECT_EQ(code_of(communicator.barrier()), Code::kAborted);
  EXPECT_EQ(code_of(communicator.all_gather(data, data)), Code::kAborted);
  EXPECT_EQ(code_of(communicator.reduce_tree(*plan, std::span(&nodes, 1), sum)), Code::kAborted);
  EXPECT_EQ(code_of(communicator.sanity()), Code::kAborted);
}

}  // namespace
}  // namespace phalanx::collective
