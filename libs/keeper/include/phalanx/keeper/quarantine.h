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
  // That wait for the one before them. Each may keep the journal of another dead front.
  static constexpr std::size_t kWaitingMax = 8;
  static constexpr Duration kWaitTime = std::chrono::seconds(60);
  // While others wait, a suspect goes back to those that are none after so long without a death.
  // Longer than it takes to notice that the front hangs.
  static constexpr Duration kAloneTime = std::chrono::seconds(15);

  struct Calls {
    // A new life of the front is to begin, behind the end of the one that there may be. That of a
    // life that ends by itself comes without it.
    std::function<void()> restart;
    std::function<void()> stop;
    std::function<void(const Newcomer& suspect)> give;  // to this front
    // It has a failure, and is not tried again: any front may tell it.
    std::function<void(Newcomer suspect)> refuse;
  };

  Quarantine(const Clock& clock, Calls calls);

  // A connection that resumes. Its turn comes behind those that wait; where there are too many, or
  // if that takes too long, it is refused.
  void add(Newcomer suspect);

  // Suspects that wait are refused, and those that come.
  void close();

  void on_ready();  // the front is, and has nothing to do
  // It is dead and reaped. True: its suspect was alone for long enough, and is none any more.
  [[nodiscard]] bool on_gone();
  void on_left();  // the suspect has ended, or its front has let go of it at rest
  void on_tick();

  // Takes back those of them that wait: their clients have left.
  void drop_waiting(const std::set<std::uint64_t>& connections);

  [[nodiscard]] std::vector<std::uint64_t> waiting() const;  // in the order of their coming
  [[nodiscard]] std::size_t size() const { return waiting_.size() + (serves_ ? 1U : 0U); }

 private:
  struct Waiting {
    Newcomer suspect;
    SteadyTime since;
  };

  void refuse(Newcomer suspect);
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
