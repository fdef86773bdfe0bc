// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/hand_over_queue.h"

#include <algorithm>
#include <utility>

#include "phalanx/obs/log.h"

namespace phalanx::keeper {

HandOverQueue::HandOverQueue(const Clock& clock, Calls calls)
    : clock_(clock), calls_(std::move(calls)) {}

void HandOverQueue::add(std::size_t front,
                        Verdict verdict,
                        std::vector<ConnectionTable::Orphan> orphans) {
  if (orphans.empty()) {
    return;
  }
  Left& left = left_.emplace_back(Left{front, std::move(verdict), {}, {}, clock_.now()});
  for (ConnectionTable::Orphan& orphan : orphans) {
    auto& orphans_left = calls_.is_urgent(orphan.connection.id) ? left.urgent : left.others;
    orphans_left.push_back(std::move(orphan));
  }
}

void HandOverQueue::go_on() {
  if (!std::exchange(turn_follows_, true)) {
    turn();
  }
}

// Whether the next of them does, for those that are being gone on with. `in_work`: requests that
// are to be told what they missed, those in left_ included.
bool HandOverQueue::waits(const Left& left, std::size_t in_work) const {
  if (clock_.now() - left.since >= kUrgentTime) {
    return false;
  }
  std::size_t not_begun = 0;
  for (const Left& other : left_) {
    not_begun += other.urgent.size();
  }
  const std::size_t begun = in_work - std::min(not_begun, in_work);
  return left.urgent.empty() ? in_work > 0 : begun >= kUrgentAtOnce;
}

// The first of many go on while the last still wait for their turn.
void HandOverQueue::turn() {
  const bool more_wait = calls_.give_waiting(kPerTurn);
  const std::size_t in_work = calls_.taking_over();
  for (std::size_t i = 0; i < kPerTurn && !left_.empty(); ++i) {
    Left& left = left_.front();
    if (waits(left, in_work)) {
      break;
    }
    auto& orphans = left.urgent.empty() ? left.others : left.urgent;
    ConnectionTable::Orphan orphan = std::move(orphans.front());
    orphans.pop_front();
    ++left.fates[calls_.hand_on(std::move(orphan), left.verdict)];
    if (left.urgent.empty() && left.others.empty()) {
      obs::log_info("connections_of_a_dead_front",
                    {{"front", left.front},
                     {"kept", left.fates[Fate::kRests]},
                     {"resumed", left.fates[Fate::kResumes]},
                     {"over", left.fates[Fate::kOver]},
                     {"cut", left.fates[Fate::kCut]}});
      left_.pop_front();
    }
  }
  turn_follows_ = more_wait || !left_.empty();
  if (turn_follows_) {
    calls_.turn_later(kPause);
  }
}

}  // namespace phalanx::keeper
