// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "phalanx/loadgen/driver.h"
#include "phalanx/os/event_loop.h"

namespace phalanx::load {

// One line on stderr that is drawn again a few times a second, and wiped at the end. Draws nothing
// unless stderr is a terminal.
//
// Ownership: borrows loop and driver.
class Progress {
 public:
  Progress(os::EventLoop& loop, const loadgen::Driver& driver, std::size_t total, bool wanted);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

 private:
  void draw() const;

  const loadgen::Driver& driver_;
  std::size_t total_;
  SteadyTime started_;
  std::unique_ptr<os::EventLoop::Handle> timer_;
};

}  // namespace phalanx::load
