// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "phalanx/base/ids.h"
#include "phalanx/base/result.h"

namespace phalanx::supervise {

// How a supervisor touches processes: at most one per slot. Real ones: PosixProcessRunner; tests
// have a fake. Every death of a spawned process is reported once, later, from outside any of these
// calls, to Supervisor::on_exit().
//
// Threads: the loop thread.
// Blocks: only a spawn() that fails behind the creation of its process, until that has ended: at
// most 1 s.
class ProcessRunner {
 public:
  ProcessRunner() = default;
  ProcessRunner(const ProcessRunner&) = delete;
  ProcessRunner& operator=(const ProcessRunner&) = delete;
  virtual ~ProcessRunner() = default;

  // Starts a process in `slot`, which has none. Readiness is told later.
  // Errors: any; kResourceExhausted where memory, processes or descriptors are lacking, which says
  // nothing of what was to be started.
  [[nodiscard]] virtual Result<pid_t> spawn(std::size_t slot, Incarnation incarnation) = 0;

  // Sends the polite message: finish and exit with status 0. May fail silently: SIGTERM follows.
  virtual void ask_to_stop(std::size_t slot) = 0;

  // Signals the process of `slot`; none there is no error.
  virtual void signal(std::size_t slot, int signal) = 0;
};

}  // namespace phalanx::supervise
