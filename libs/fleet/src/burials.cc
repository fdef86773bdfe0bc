// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/burials.h"

#include <utility>

namespace phalanx::fleet {

void Burials::begin(const supervise::Death& death) {
  if (!any()) {
    strangers_.clear();
    for (const auto& [pid, since] : seen_) {
      if (clock_.now() - since >= kStrangerAge) {
        strangers_.insert(pid);
      }
    }
  }
  open_.push_back({death, clock_.now() + kLimit});
  poll();
}

void Burials::poll() {
  std::vector<pid_t> orphans = living_();
  std::erase_if(orphans, [this](pid_t pid) { return strangers_.contains(pid); });
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

// What a death has left may be here before the death is known, but not for long.
void Burials::look_around() {
  if (any()) {
    return;
  }
  const SteadyTime now = clock_.now();
  std::map<pid_t, SteadyTime> seen;
  for (const pid_t pid : living_()) {
    const auto before = seen_.find(pid);
    seen.emplace(pid, before == seen_.end() ? now : before->second);
  }
  seen_ = std::move(seen);
}

}  // namespace phalanx::fleet
