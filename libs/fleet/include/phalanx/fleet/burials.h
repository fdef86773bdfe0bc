// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/supervise/death.h"

namespace phalanx::fleet {

// Deaths of replicas whose ranks are not gone yet. Orphans hold their KV until they are, and the
// next incarnation may not fit beside it: so a slot counts as dead, and is started again, only
// afterwards, or when kLimit has passed.
//
// Children that were here before, a helper of the script that became this process or what somebody
// left in its container, are no replica's and nobody waits for them.
//
// Ownership: borrows the clock.
// Threads: one.
class Burials {
 public:
  // The kernel has told the orphans to end: what remains is to take their memory down.
  static constexpr Duration kLimit = std::chrono::seconds(5);
  // Whoever has been here for so long when a replica dies is a stranger to it.
  static constexpr Duration kStrangerAge = std::chrono::seconds(1);

  // Children of this process that it has not spawned and that live, whoever left them.
  using LivingOrphans = std::function<std::vector<pid_t>()>;
  // `remaining` is not empty when the limit has passed.
  using Over =
      std::function<void(const supervise::Death& death, const std::vector<pid_t>& remaining)>;

  Burials(LivingOrphans living, Over over, const Clock& clock)
      : living_(std::move(living)), over_(std::move(over)), clock_(clock) {}

  // `over` may be called from inside, once for each death.
  void begin(const supervise::Death& death);
  // To be called every few milliseconds while any() is true.
  void poll();
  // Looks for strangers; to be called every kStrangerAge.
  void look_around();
  [[nodiscard]] bool any() const { return !open_.empty(); }

 private:
  struct Burial {
    supervise::Death death;
    SteadyTime deadline;
  };

  LivingOrphans living_;
  Over over_;
  const Clock& clock_;
  std::vector<Burial> open_;
  std::map<pid_t, SteadyTime> seen_;  // while no replica was being buried: since when
  std::set<pid_t> strangers_;         // to the burials that are open
};

}  // namespace phalanx::fleet
