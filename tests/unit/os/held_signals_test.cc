// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/held_signals.h"

#include <poll.h>
#include <unistd.h>

#include <csignal>

#include <gtest/gtest.h>

namespace phalanx::os {
namespace {

void expect(bool is_so) {
  if (!is_so) {
    ::_exit(1);
  }
}

bool readable(const HeldSignals& signals) {
  pollfd entry{signals.fd(), POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

// In a process of its own: they stay held to its end.
[[noreturn]] void hold_and_take() {
  std::signal(SIGTERM, SIG_IGN);  // as nohup leaves SIGHUP
  hold_group_signals();
  for (const int signal : {SIGHUP, SIGTERM, SIGINT}) {
    ::raise(signal);
  }
  const int first = take_end_signal();
  const int second = take_end_signal();
  expect(first + second == SIGINT + SIGTERM && first != 0 && second != 0);
  expect(take_end_signal() == 0);
  auto signals = HeldSignals::open();
  expect(signals && readable(*signals));
  expect(signals->take() == SIGHUP);
  expect(!readable(*signals) && signals->take() == 0);
  ::raise(SIGTERM);
  expect(readable(*signals) && signals->take() == SIGTERM);
  ::raise(SIGTERM);
  ::_exit(0);
}

TEST(HeldSignals, WaitUntilTheyAreTakenAndEndNobody) {
  EXPECT_EXIT(hold_and_take(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace phalanx::os
