// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/burials.h"

#include <utility>

namespace phalanx::fleet {

void Burials::begin(const supervise::Death& death) {
  open_.push_back({death, clock_.now() + kLimit});
  poll();
}

void Burials::poll() {
  const std::vector<pid_t> orphans = living_();
  const SteadyTime now = clock_.now();
  // What `over` does may end the next replica.
  for (Burial& burial : std::exchange(open_, {})) {
    if (orphans.empty() || now >= burial.deadline) {
      over_(burial.death, orphans);
    } else {
      open_.push_back(std::move(burial));
    }
  }
}

}  // namespace phalanx::fleet
