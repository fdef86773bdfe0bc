// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "phalanx/base/clock.h"

namespace phalanx::os {

enum class FutexWoken {
  kWoken,    // by futex_wake, or for no reason: look at the word again
  kChanged,  // the word was not `expected` any more
  kTimeout
};

// Sleeps while `word` is `expected`, at most `timeout`. The word may lie in memory that processes
// share.
// Blocks: at most `timeout`.
FutexWoken futex_wait(const std::atomic<std::uint32_t>& word,
                      std::uint32_t expected,
                      Duration timeout);

// Wakes up to `count` sleepers of `word`, in any process; returns how many.
int futex_wake(const std::atomic<std::uint32_t>& word, int count);
int futex_wake_all(const std::atomic<std::uint32_t>& word);

}  // namespace phalanx::os
