// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/keeper/connection_table.h"

namespace phalanx::keeper {

// Connections whose request a front is suspected to have died of, and the life of the front that
// works for one of them and for nobody else. Each suspect gets a new life of that front, which ends
// with it; without suspects there is none.
//
// Ownership: borrows the clock.
// Threads: one. Blocks: never.
class Quarantine {
 public:
  // Suspects that wait for their turn. Each may keep the journal of another dead front.
  static constexpr std::size_t kMaxWaiting = 8;
  static constexpr Duration kWaitTime = std::chrono::seconds(60);
  // While others wait, a suspect that has gone so long without a death is cleared. Longer than it
  // takes to notice that the front hangs.
  static constexpr Duration kAloneTime = std::chrono::seconds(15);

  struct Calls {
    // A new life of the front is to begin, once the current one, if any, has been ended. After a
    // life that ends by itself the next one begins without this.
    std::function<void()> restart;
    std::function<void()> stop;
    std::function<void(const FrontConnection& suspect)> give;  // to this front
    // It has a failure, and is not tried again: any front may tell it.
    std::function<void(FrontConnection suspect)> refuse;
  };

  Quarantine(const Clock& clock, Calls calls);

  // A connection that resumes. It waits for its turn, and is refused if too many wait or that takes
  // too long.
  void add(FrontConnection suspect);

  // Those that wait are refused, and all that come.
  void close();

  void on_ready();  // the front is, and has nothing to do
  // It is dead and reaped. True: its suspect has been alone for long enough, and is cleared.
  [[nodiscard]] bool on_gone();
  void on_left();  // the suspect has ended, or its front has let go of it at rest
  void on_tick();

  // Forgets those of them that wait: their clients have left.
  void drop_waiting(const std::set<std::uint64_t>& connections);

  [[nodiscard]] std::vector<std::uint64_t> waiting() const;  // in the order of their coming
  [[nodiscard]] std::size_t size() const { return waiting_.size() + (serves_ ? 1U : 0U); }

 private:
  struct Waiting {
    FrontConnection suspect;
    SteadyTime since;
  };

  void refuse(FrontConnection suspect);
  void end_life();

  const Clock& clock_;
  Calls calls_;
  std::deque<Waiting> waiting_;  // in the order of their coming
  bool wanted_ = false;          // the front lives, or is about to
  bool serves_ = false;
  SteadyTime serves_since_{};
  bool relieved_ = false;  // what it serves has been alone for long enough; its end is on the way
  bool closed_ = false;
};

}  // namespace phalanx::keeper
