// SPDX-License-Identifier: Apache-2.0
#include "futex_wait.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace phalanx::collective {

void futex_sleep(const std::atomic<std::uint32_t>& word, std::uint32_t seen, Duration limit) {
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(limit).count();
  const timespec timeout{.tv_sec = nanoseconds / 1'000'000'000,
                         .tv_nsec = nanoseconds % 1'000'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace phalanx::collective
