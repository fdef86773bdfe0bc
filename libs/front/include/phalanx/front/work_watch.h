// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "phalanx/base/punctual_ticks.h"
#include "phalanx/wire/front_journal.h"

namespace phalanx::front {

// Finds work on a thread other than the loop's that does not come to its end: whoever waits for the
// loop to fall silent never learns of it, as the loop has nothing to do with it.
//
// Threads: begin() and end() the thread that works, each with a number of its own (<
// wire::kJournalMarks); tick() the loop thread. Nothing blocks.
class WorkWatch {
 public:
  // tick() is called each `period`. Work is stuck when `max_ticks` of them have found it under way.
  // Ticks count that come on time (base/punctual_ticks.h): a process that is stopped accuses
  // nobody.
  WorkWatch(Duration period, std::uint32_t max_ticks) : ticks_(period), max_ticks_(max_ticks) {}

  void begin(std::size_t thread, std::uint64_t connection);
  void end(std::size_t thread);

  // The connection that a stuck thread works for.
  [[nodiscard]] std::optional<std::uint64_t> tick(SteadyTime now);

 private:
  struct Work {
    std::atomic<std::uint64_t> begun{0};  // pieces of work
    std::atomic<std::uint64_t> ended{0};
    std::atomic<std::uint64_t> connection{0};
    std::uint64_t seen = 0;  // `begun` at the last tick
    std::uint32_t ticks = 0;
  };

  PunctualTicks ticks_;
  std::uint32_t max_ticks_;
  std::array<Work, wire::kJournalMarks> work_;
};

}  // namespace phalanx::front
