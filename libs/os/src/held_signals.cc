// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/held_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

#include "group_signals.h"

namespace phalanx::os {

void hold_group_signals() {
  const sigset_t signals = group_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A shell or nohup may have had some ignored, and those would not wait.
  for (const int signal : kGroupSignals) {
    std::signal(signal, SIG_DFL);
  }
}

int take_end_signal() {
  const timespec at_once{};
  sigset_t signals = group_signals();
  sigdelset(&signals, SIGHUP);
  const int number = ::sigtimedwait(&signals, nullptr, &at_once);
  return number > 0 ? number : 0;
}

Result<HeldSignals> HeldSignals::open() {
  const sigset_t signals = group_signals();
  UniqueFd fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) {
    return errno_error("opening a descriptor for signals", errno);
  }
  return HeldSignals(std::move(fd));
}

int HeldSignals::take() {
  signalfd_siginfo info{};
  const ssize_t size = ::read(fd_.get(), &info, sizeof(info));
  return size == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace phalanx::os
