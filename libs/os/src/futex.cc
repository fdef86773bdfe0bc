// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace phalanx::os {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

FutexWoken futex_wait(const std::atomic<std::uint32_t>& word,
                      std::uint32_t expected,
                      Duration timeout) {
  if (timeout < Duration::zero()) {
    timeout = Duration::zero();
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  timespec limit{};
  limit.tv_sec = seconds.count();
  limit.tv_nsec = std::chrono::nanoseconds(timeout - seconds).count();
  const long woken = ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &limit, nullptr, 0);
  if (woken == 0) {
    return FutexWoken::kWoken;
  }
  if (errno == EAGAIN) {
    return FutexWoken::kChanged;
  }
  return errno == ETIMEDOUT ? FutexWoken::kTimeout : FutexWoken::kWoken;
}

int futex_wake(const std::atomic<std::uint32_t>& word, int count) {
  return static_cast<int>(::syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0));
}

int futex_wake_all(const std::atomic<std::uint32_t>& word) {
  return futex_wake(word, INT_MAX);
}

}  // namespace phalanx::os
