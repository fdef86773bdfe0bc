// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "phalanx/base/clock.h"
#include "phalanx/keeper/connection_table.h"
#include "phalanx/keeper/hand_over.h"

namespace phalanx::keeper {

// Connections of dead fronts on their way to another one, some in each turn of the loop. First
// those whose clients wait for bytes, a few at a time.
//
// Ownership: borrows the clock.
// Threads: one. Blocks: never.
class HandOverQueue {
 public:
  // In a turn of the loop, and the pause between two: the next front has to keep up with them, and
  // its streams go on in between.
  static constexpr std::size_t kPerTurn = 16;
  static constexpr Duration kPause = std::chrono::milliseconds(1);
  // Of those that have a request in work, so many are gone on with at a time: the first go on while
  // the last have not begun, where all would come to their next byte together. What nobody waits
  // for comes behind them. Both for so long at most.
  static constexpr std::size_t kUrgentAtOnce = 8;
  static constexpr Duration kUrgentTime = std::chrono::milliseconds(50);

  struct Calls {
    // As ConnectionTable::give_waiting(): of those that wait for any front.
    std::function<bool(std::size_t most)> give_waiting;
    // Whether its client waits for what is in work.
    std::function<bool(std::uint64_t connection)> is_urgent;
    // Requests that are to be told what they missed, as soon as they can be; those of connections
    // that have not been handed on included.
    std::function<std::size_t()> taking_over;
    // Answers what becomes of it. It may wait for a front from then on.
    std::function<Fate(ConnectionTable::Orphan orphan, const Verdict& verdict)> hand_on;
    std::function<void(Duration wait)> turn_later;  // turn() is to follow
  };

  HandOverQueue(const Clock& clock, Calls calls);

  // The connections of a front, of whose death the verdict is; go_on() is to follow.
  void add(std::size_t front, Verdict verdict, std::vector<ConnectionTable::Orphan> orphans);

  // There is something to hand on, or somebody that takes it: the first turn comes at once, unless
  // another one is to follow anyway.
  void go_on();
  void turn();

  [[nodiscard]] bool empty() const { return left_.empty(); }

 private:
  // Of one front.
  struct Left {
    std::size_t front;
    Verdict verdict;
    std::deque<ConnectionTable::Orphan> urgent;
    std::deque<ConnectionTable::Orphan> others;  // behind them
    SteadyTime since;
    std::map<Fate, std::size_t> fates{};
  };

  [[nodiscard]] bool waits(const Left& left, std::size_t in_work) const;

  const Clock& clock_;
  Calls calls_;
  std::deque<Left> left_;
  bool turn_follows_ = false;
};

}  // namespace phalanx::keeper
