// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <mutex>
#include <set>

namespace phalanx::os {

// Pids of the children that this process spawned and has not reaped. Which children a process has
// is one fact per process, so there is one object of it: reap_adopted() must not take the end of a
// child from the ChildProcess that waits for it.
//
// Threads: hold `mutex` while looking and while a child is created, so that no child exists that is
// not listed.
struct OwnChildren {
  std::mutex mutex;
  std::set<pid_t> pids;
};

[[nodiscard]] OwnChildren& own_children();

}  // namespace phalanx::os
