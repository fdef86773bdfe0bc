// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/os/child_process.h"

namespace phalanx::supervise {

// Which program the slots of a supervisor run: a proven one, and perhaps a new one that has to prove
// itself in one slot first, by getting ready there in time. Meanwhile all others are started with
// the proven one. The very first program counts as proven.
//
// Threads: one.
class SlotPrograms {
 public:
  // `trial_time`: from the first start with a new program to readiness.
  SlotPrograms(os::HeldProgram first, std::size_t slots, Duration trial_time);

  // A new program to be tried; it takes the place of one that is being tried. Returns the slot that
  // runs that one, if any: the caller ends it, and it starts again with this one.
  [[nodiscard]] std::optional<std::size_t> offer(os::HeldProgram program);

  // What a slot that starts now is to run. The first one to ask with `may_try` tries the new
  // program.
  [[nodiscard]] const os::HeldProgram& start(std::size_t slot, bool may_try, SteadyTime now);

  // The new program is what all start with from now on.
  void on_ready(std::size_t slot);
  // The process ended before it was ready, or could not be started. Returns the path of the program
  // that is refused for it; none if the slot tried none, or one that has been replaced meanwhile.
  [[nodiscard]] std::optional<std::string> on_failed(std::size_t slot);
  // Somebody ended or stopped the process before it was ready; what it tried is tried again by
  // whichever starts next.
  void on_ended(std::size_t slot);

  // Whether the slot was last started with a program other than the newest one that is not refused.
  [[nodiscard]] bool is_outdated(std::size_t slot) const;

  // The slot that tries the new program; none before one has been started with it.
  [[nodiscard]] std::optional<std::size_t> trial() const;
  [[nodiscard]] bool is_overdue(SteadyTime now) const;

  // Of the new program while there is one.
  [[nodiscard]] const std::string& path() const;

 private:
  // They are told apart by their number: two may have one path.
  struct Program {
    os::HeldProgram held;
    std::uint64_t number = 0;
  };
  struct Trial {
    Program program;
    std::optional<std::size_t> slot;  // that tries it
    bool is_running = false;          // … this one, and not the one of before
    std::optional<SteadyTime> since;  // its first start
  };
  Duration trial_time_;
  Program proven_;
  std::optional<Trial> trial_;
  std::uint64_t offered_ = 0;
  std::vector<std::uint64_t> started_with_;  // by slot: the number of a program
};

}  // namespace phalanx::supervise
