// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/base/clock.h"

namespace phalanx::engine {

struct ProgressOptions {
  Duration period = std::chrono::milliseconds(20);
  // Counted ticks without progress before a rank is hung: never fewer than min_ticks, otherwise
  // gap_factor times the longest gap seen; while a group forms, form_ticks.
  std::uint32_t min_ticks = 100;
  std::uint32_t gap_factor = 8;
  std::uint32_t form_ticks = 500;
  std::uint32_t start_ticks = 1500;  // for a new process to take its hello and answer it
  std::uint32_t grace_ticks = 25;    // between the abort and the kill
  std::uint32_t late_ticks = 8;      // so many that came late count as one
};

// One tick of the watcher as others see it.
struct ProgressTick {
  bool counted = false;             // the tick came on time, or stands for some that did not
  std::vector<std::uint8_t> moved;  // per rank: its progress word changed since the last tick
};

// Judges hanging by progress and not by the clock (S3): ticks that themselves came on time count,
// and of those that came late a few, so a suspended machine accuses nobody, a watcher that is
// starved for ever (by a quota) takes longer, and the patience follows the longest gap between two
// signs of progress that this program has seen on this machine.
//
// Threads: one.
class ProgressWatch {
 public:
  ProgressWatch(const ProgressOptions& options, std::uint32_t ranks);

  // `words[r]`: the progress word of rank r. A tick that was asked for `periods` after the one
  // before it is on time when it comes at most half a period before or after that.
  [[nodiscard]] ProgressTick tick(SteadyTime now,
                                  std::uint32_t periods,
                                  std::span<const std::uint64_t> words);

  // An operation succeeded although nothing had moved for `ticks` counted ticks.
  void saw_gap(std::uint32_t ticks);

  // Counted ticks without progress after which a rank is hung.
  [[nodiscard]] std::uint32_t patience() const;
  [[nodiscard]] const ProgressOptions& options() const { return options_; }

 private:
  ProgressOptions options_;
  std::vector<std::uint64_t> words_;
  std::uint32_t longest_gap_ = 0;
  std::uint32_t late_ticks_ = 0;  // that no count stands for yet
  SteadyTime last_;
  bool ticked_ = false;
};

}  // namespace phalanx::engine
