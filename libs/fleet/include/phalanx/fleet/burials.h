// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <utility>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/supervise/death_log.h"

namespace phalanx::fleet {

// Deaths of replicas whose ranks are not gone yet. Orphans hold their KV until they are, and the
// next incarnation may not fit beside it: so a slot counts as dead, and is started again, only
// afterwards, or when kLimit has passed.
//
// Ownership: borrows the clock.
// Threads: one.
class Burials {
 public:
  // The kernel has told the orphans to end: what remains is to take their memory down.
  static constexpr Duration kLimit = std::chrono::seconds(5);

  // Orphans of this process that live, whoever left them.
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
};

}  // namespace phalanx::fleet
