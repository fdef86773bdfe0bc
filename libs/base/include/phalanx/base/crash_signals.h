// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <csignal>

namespace phalanx {

// The signals of a program that did something wrong, as opposed to those that end it on request. A
// process that dies by one of them may have written anywhere before.
inline constexpr std::array kCrashSignals{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS};

[[nodiscard]] constexpr bool is_crash_signal(int signal) {
  return std::find(kCrashSignals.begin(), kCrashSignals.end(), signal) != kCrashSignals.end();
}

}  // namespace phalanx
