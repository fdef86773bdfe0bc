// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace phalanx {

// Finds among units of work the one that kills whoever runs it. Those that ran when somebody died
// are run again in halves, one half at a time, until each has got further or one has killed alone
// twice. What was shared is forgiven by getting further; what one did alone by forgive() only.
//
// A value without clocks or processes: the owner runs testing() and nothing else while active(),
// and tells what becomes of it. Ids need an order.
// Threads: one.
template <typename Id>
class Bisection {
 public:
  static constexpr std::uint32_t kDeathsAlone = 2;

  // Somebody died while exactly these ran, or these and some that are not here any more. Answers
  // the one that has now killed alone twice; it is forgotten.
  [[nodiscard]] std::optional<Id> blame(const std::vector<Id>& together, bool and_others = false) {
    for (const Id& id : together) {
      take_out(id);
    }
    if (!groups_.empty()) {
      groups_.front().first_half = false;  // it has not passed
    }
    if (together.size() == 1 && !and_others && ++alone_[together.front()] >= kDeathsAlone) {
      alone_.erase(together.front());
      explained_ = true;
      settle();
      return together.front();
    }
    split(together);
    settle();
    return std::nullopt;
  }

  // It got further than where it was when somebody died.
  void progressed(const Id& id) {
    if (testing_.contains(id)) {
      take_out(id);
      settle();
    }
  }

  // It got so much further that what it did alone cannot be what it does.
  void forgive(const Id& id) { alone_.erase(id); }

  // Only what `here` holds for still exists. A search that loses a suspect accuses nobody else.
  template <typename Predicate>
  void keep(Predicate here) {
    std::erase_if(alone_, [&](const auto& entry) { return !here(entry.first); });
    for (Group& group : groups_) {
      const auto gone = std::erase_if(group.members, [&](const Id& id) { return !here(id); });
      explained_ = explained_ || gone != 0;
    }
    settle();
  }

  [[nodiscard]] bool active() const { return !groups_.empty(); }
  [[nodiscard]] bool knows_any() const { return active() || !alone_.empty(); }
  [[nodiscard]] const std::set<Id>& testing() const { return testing_; }

  // Whether a search has ended without a culprit since the last call.
  [[nodiscard]] bool take_unexplained() { return std::exchange(unexplained_, false); }

 private:
  struct Group {
    std::vector<Id> members;
    bool first_half = false;  // when it has passed, the culprit should be in the next group
  };

  void take_out(const Id& id) {
    for (Group& group : groups_) {
      std::erase(group.members, id);
    }
  }

  void split(const std::vector<Id>& members) {
    if (members.size() <= 1) {
      groups_.push_front({members, false});
      return;
    }
    const auto middle = members.begin() + static_cast<std::ptrdiff_t>(members.size() / 2);
    groups_.push_front({{middle, members.end()}, false});
    groups_.push_front({{members.begin(), middle}, true});
  }

  void settle() {
    while (!groups_.empty() && groups_.front().members.empty()) {
      const bool passed = groups_.front().first_half;
      groups_.pop_front();
      if (passed && !groups_.empty() && groups_.front().members.size() > 1) {
        const Group suspects = std::move(groups_.front());
        groups_.pop_front();
        split(suspects.members);
      }
    }
    testing_.clear();
    if (!groups_.empty()) {
      testing_.insert(groups_.front().members.begin(), groups_.front().members.end());
      searching_ = true;
    } else {
      unexplained_ = unexplained_ || (searching_ && !explained_);
      searching_ = false;
      explained_ = false;
    }
  }

  std::deque<Group> groups_;  // the first one is tested
  std::set<Id> testing_;
  std::map<Id, std::uint32_t> alone_;  // deaths while nothing else ran
  bool searching_ = false;
  bool explained_ = false;
  bool unexplained_ = false;
};

}  // namespace phalanx
