// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "phalanx/base/clock.h"

namespace phalanx::collective {

// Sleeps while `word` holds `seen`, at most `limit`. Returns early for any reason or none.
void futex_sleep(const std::atomic<std::uint32_t>& word, std::uint32_t seen, Duration limit);

// Wakes every sleeper on `word`, in any process that maps it.
void futex_wake_all(const std::atomic<std::uint32_t>& word);

}  // namespace phalanx::collective
