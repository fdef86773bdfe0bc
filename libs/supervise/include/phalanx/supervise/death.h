// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/base/death_origin.h"
#include "phalanx/base/ids.h"
#include "phalanx/os/child_process.h"

namespace phalanx::supervise {

// The end of one incarnation.
struct Death {
  std::size_t slot = 0;
  Incarnation incarnation;
  os::ExitReason reason;
  DeathOrigin origin = DeathOrigin::kSent;
  std::uint64_t work = 0;  // what the thread that crashed was at (os::work_for()); 0: not known
  std::string cause;       // what the child itself reported, if it could
  std::vector<std::string> lines;  // its last log lines, oldest first
  bool was_ready = false;
  bool excused = false;  // held against a request and not against the slot
};

// "killed by signal 9 (SIGKILL)"; with a reported cause "exited with status 65: cause". Clients may
// read it.
[[nodiscard]] std::string describe(const Death& death);
// Without a cause and with log lines, the last of them, too, which may speak of anybody's request.
[[nodiscard]] std::string describe_for_log(const Death& death);

}  // namespace phalanx::supervise
