// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <optional>

#include "phalanx/base/result.h"

namespace phalanx::os {

// What the crash handler of a process saw: siginfo of the first of kCrashSignals.
struct Crash {
  int signal = 0;
  int code = 0;            // si_code
  pid_t sender = 0;        // si_pid; of meaning only when a process sent the signal
  std::uint64_t work = 0;  // what the thread that the signal came to was at (work_for())
};

// Room for it in memory that a parent shares. Lies in a lifeline page; zeroes mean no crash.
class CrashRecord {
 public:
  // The parent's side, after the death. Nothing: the handler did not run.
  [[nodiscard]] std::optional<Crash> read() const;

  // The handler's side. Only the first call counts. Safe in a signal handler.
  void write(const Crash& crash);

 private:
  std::atomic<int> taken_{0};
  std::atomic<int> code_{0};
  std::atomic<int> sender_{0};
  std::atomic<std::uint64_t> work_{0};
  std::atomic<int> signal_{0};  // written last
};

// Whether the process `self` crashed by what it did: the kernel raised the signal for a fault, or
// it sent the signal to itself. False: another process sent it.
[[nodiscard]] bool is_own(const Crash& crash, pid_t self);

// From now on a crash of this process writes into `record` and then takes its usual course: the
// previous handler, or death by that signal. Main thread; other threads are covered too, but a
// stack overflow of theirs ends the process without a record.
//
// Ownership: `record` must stay mapped until forget_crash_record().
// Errors: those of sigaction and sigaltstack.
[[nodiscard]] Status record_crashes(CrashRecord& record);
void forget_crash_record();

// What this thread works for from now on, in the numbers of who asks after a crash. 0: nothing.
void work_for(std::uint64_t work);

}  // namespace phalanx::os
