// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "phalanx/base/result.h"
#include "phalanx/os/unique_fd.h"

namespace phalanx::os {

// From here to the end of the process SIGHUP, SIGINT and SIGTERM wait until somebody takes them, in
// this thread and in all that it begins: none is lost between two who listen, and one that comes
// when nobody does any more has no effect. Before there is another thread.
void hold_group_signals();

// SIGINT or SIGTERM, if one has come; otherwise 0. Behind hold_group_signals().
// Blocks: never.
[[nodiscard]] int take_end_signal();

// Takes what hold_group_signals() holds.
//
// Threads: one. Blocks: never.
class HeldSignals {
 public:
  HeldSignals() = default;

  // Errors: kResourceExhausted.
  [[nodiscard]] static Result<HeldSignals> open();

  [[nodiscard]] int fd() const { return fd_.get(); }  // readable while one of the three waits

  // The next one that waits; otherwise 0.
  [[nodiscard]] int take();

 private:
  explicit HeldSignals(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace phalanx::os
