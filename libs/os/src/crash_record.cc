// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/crash_record.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>

#include "phalanx/base/crash_signals.h"

namespace phalanx::os {

namespace {

constexpr std::size_t kStackBytes = std::size_t{64} << 10;

std::atomic<CrashRecord*> record_in_use{nullptr};
std::array<struct sigaction, kCrashSignals.size()> previous{};
alignas(16) std::array<std::byte, kStackBytes> handler_stack{};
constinit thread_local std::atomic<std::uint64_t> work_of_this_thread{0};

// Only calls that are safe in a handler. A fault is met again when the instruction runs again, now
// under the previous disposition; a signal that was sent has to be raised again, as has that of a
// call that a filter forbids, which does not run again.
void on_crash(int signal, siginfo_t* info, void* /*context*/) {
  const int saved = errno;
  if (CrashRecord* const record = record_in_use.load(std::memory_order_acquire)) {
    record->write({signal,
                   info->si_code,
                   info->si_code <= 0 ? info->si_pid : 0,
                   work_of_this_thread.load(std::memory_order_relaxed)});
  }
  for (std::size_t i = 0; i < kCrashSignals.size(); ++i) {
    ::sigaction(kCrashSignals[i], &previous[i], nullptr);
  }
  if (info->si_code <= 0 || signal == SIGSYS) {
    ::raise(signal);
  }
  errno = saved;
}

}  // namespace

std::optional<Crash> CrashRecord::read() const {
  const int signal = signal_.load(std::memory_order_acquire);
  if (signal == 0) {
    return std::nullopt;
  }
  return Crash{signal,
               code_.load(std::memory_order_relaxed),
               sender_.load(std::memory_order_relaxed),
               work_.load(std::memory_order_relaxed)};
}

void CrashRecord::write(const Crash& crash) {
  if (taken_.exchange(1, std::memory_order_relaxed) == 0) {
    code_.store(crash.code, std::memory_order_relaxed);
    sender_.store(crash.sender, std::memory_order_relaxed);
    work_.store(crash.work, std::memory_order_relaxed);
    signal_.store(crash.signal, std::memory_order_release);
  }
}

bool is_own(const Crash& crash, pid_t self) {
  // The kernel lets nobody send another process a positive code.
  return crash.code > 0 || crash.sender == self;
}

Status record_crashes(CrashRecord& record) {
  record_in_use.store(&record, std::memory_order_release);
  stack_t stack{};
  stack.ss_sp = handler_stack.data();
  stack.ss_size = handler_stack.size();
  if (::sigaltstack(&stack, nullptr) != 0) {
    return errno_error("giving the crash handler a stack", errno);
  }
  struct sigaction action {};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kCrashSignals.size(); ++i) {
    if (::sigaction(kCrashSignals[i], &action, &previous[i]) != 0) {
      return errno_error("setting a crash handler", errno);
    }
  }
  return ok();
}

void forget_crash_record() {
  record_in_use.store(nullptr, std::memory_order_release);
}

void work_for(std::uint64_t work) {
  work_of_this_thread.store(work, std::memory_order_relaxed);
}

}  // namespace phalanx::os
