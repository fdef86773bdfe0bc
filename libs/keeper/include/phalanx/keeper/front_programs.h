// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "phalanx/base/clock.h"
#include "phalanx/os/child_process.h"

namespace phalanx::keeper {

// Which program fronts run: one that is proven, and perhaps a new one that has to prove itself in
// one slot first, by getting ready there in time. Meanwhile all others are started with the proven
// one. The very first program counts as proven.
//
// Threads: one.
class FrontPrograms {
 public:
  // From the start of a front with a new program to its readiness.
  static constexpr Duration kTrialTime = std::chrono::seconds(60);

  explicit FrontPrograms(os::HeldProgram first);

  // A new program to be tried, instead of one that is being tried. The slot that tries that one, if
  // it runs: the caller ends it, and its next start is with this one.
  [[nodiscard]] std::optional<std::size_t> offer(os::HeldProgram program);

  // What is to be run in a slot that starts now. The first one that asks tries the new program.
  [[nodiscard]] const os::HeldProgram& start(std::size_t slot, SteadyTime now);
  // … in one that never tries any.
  [[nodiscard]] const os::HeldProgram& proven() const { return proven_; }

  // The new program is wherever fronts start from now on.
  void on_ready(std::size_t slot);
  // The front ended before it was ready, or could not be started. The path of the program that is
  // refused for it; none if the slot tried none, or one that another was offered instead of.
  [[nodiscard]] std::optional<std::string> on_failed(std::size_t slot);

  // The slot that tries the new program; none before one has been started with it.
  [[nodiscard]] std::optional<std::size_t> trial() const;
  [[nodiscard]] bool is_overdue(SteadyTime now) const;

  // Of the new program while there is one.
  [[nodiscard]] const std::string& path() const;

 private:
  struct Trial {
    os::HeldProgram program;
    std::optional<std::size_t> slot;  // that tries it
    bool is_running = false;          // … this one, and not the one of before
    SteadyTime since{};
  };
  os::HeldProgram proven_;
  std::optional<Trial> trial_;
};

}  // namespace phalanx::keeper
