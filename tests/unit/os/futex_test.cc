// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/futex.h"

#include <thread>

#include <gtest/gtest.h>

namespace phalanx::os {
namespace {

using std::chrono::milliseconds;

TEST(Futex, DoesNotSleepOnAChangedWord) {
  const std::atomic<std::uint32_t> word{7};
  EXPECT_EQ(futex_wait(word, 6, std::chrono::hours(1)), FutexWoken::kChanged);
}

TEST(Futex, SleepsNoLongerThanItsTimeout) {
  const std::atomic<std::uint32_t> word{7};
  EXPECT_EQ(futex_wait(word, 7, milliseconds(1)), FutexWoken::kTimeout);
  EXPECT_EQ(futex_wait(word, 7, milliseconds(-5)), FutexWoken::kTimeout);
}

TEST(Futex, WakesASleeper) {
  std::atomic<std::uint32_t> word{0};
  std::thread sleeper([&] {
    while (word.load() == 0) {
      futex_wait(word, 0, std::chrono::seconds(10));
    }
  });
  word.store(1);
  futex_wake_all(word);
  sleeper.join();
  EXPECT_EQ(futex_wake(word, 1), 0);
}

}  // namespace
}  // namespace phalanx::os
