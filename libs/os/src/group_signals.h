// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace phalanx::os {

// What a terminal or a service manager sends to a whole process group.
inline constexpr int kGroupSignals[] = {SIGHUP, SIGINT, SIGTERM};

[[nodiscard]] inline sigset_t group_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : kGroupSignals) {
    sigaddset(&signals, signal);
  }
  return signals;
}

}  // namespace phalanx::os
