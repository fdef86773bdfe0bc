// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/rollout.h"

#include <algorithm>

namespace phalanx::fleet {

using Condition = RollSlot::Condition;

// What is down already costs nobody anything, so it comes first.
void Rollout::begin(std::span<const RollSlot> slots) {
  active_ = true;
  current_.reset();
  pending_.clear();
  for (const bool failed : {true, false}) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if ((slots[i].condition == Condition::kFailed) == failed) {
        pending_.emplace_back(i, slots[i].incarnation);
      }
    }
  }
}

void Rollout::leave_out(std::size_t slot) {
  if (current_ && current_->first == slot) {
    current_.reset();
  }
}

Rollout::Advice Rollout::advance(std::span<const RollSlot> slots) {
  if (std::exchange(requested_, false)) {
    begin(slots);
  }
  if (!active_) {
    return {};
  }
  if (current_) {
    const auto [slot, replaced] = *current_;
    if (slots[slot].incarnation == replaced) {
      return {};
    }
    if (slots[slot].condition == Condition::kFailed) {
      drop();
      return {std::nullopt, true, slot};
    }
  }
  const auto coming = [](const RollSlot& slot) { return slot.condition == Condition::kComing; };
  if (std::any_of(slots.begin(), slots.end(), coming)) {
    return {};
  }
  for (;;) {
    while (!pending_.empty()) {
      const auto [slot, replaced] = pending_.front();
      pending_.pop_front();
      // One that has been started again since the request is as new as it was asked to be.
      if (slots[slot].condition != Condition::kHeld && slots[slot].incarnation == replaced) {
        current_.emplace(slot, replaced);
        return {slot, false, std::nullopt};
      }
    }
    if (!std::exchange(queued_, false)) {
      active_ = false;
      return {std::nullopt, true, std::nullopt};
    }
    begin(slots);
  }
}

}  // namespace phalanx::fleet
