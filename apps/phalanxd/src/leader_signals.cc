// SPDX-License-Identifier: Apache-2.0
#include "leader_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <initializer_list>

namespace phalanx::app {

namespace {

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) {
    sigaddset(&set, signal);
  }
  return set;
}

sigset_t held_signals() {
  return set_of({SIGHUP, SIGINT, SIGTERM});
}

}  // namespace

void hold_signals() {
  const sigset_t signals = held_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A shell or nohup may have had some ignored, and those would not wait.
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
    std::signal(signal, SIG_DFL);
  }
}

int take_end_signal() {
  const timespec at_once{};
  const sigset_t signals = set_of({SIGINT, SIGTERM});
  const int number = ::sigtimedwait(&signals, nullptr, &at_once);
  return number > 0 ? number : 0;
}

Result<os::UniqueFd> open_signals() {
  const sigset_t signals = held_signals();
  os::UniqueFd fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) {
    return errno_error("opening a descriptor for signals", errno);
  }
  return fd;
}

int take_signal(const os::UniqueFd& signals) {
  signalfd_siginfo info{};
  const ssize_t size = ::read(signals.get(), &info, sizeof(info));
  return size == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace phalanx::app
