// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <utility>

#include "phalanx/base/ids.h"

namespace phalanx::fleet {

// A slot as a rolling restart sees it.
struct RollSlot {
  enum class Condition {
    kReady,   // serves
    kComing,  // starts, recovers, or waits for its restart
    kFailed,  // will not come back by itself
    kHeld,    // an operator keeps it out: it is left alone
  };
  Condition condition = Condition::kReady;
  Incarnation incarnation;
  friend bool operator==(const RollSlot&, const RollSlot&) = default;
};

// A rolling restart: every slot once, one at a time, and none while another one is away, whatever
// the reason. It looks at how things are and not at what happened, so no event that is missed or
// comes twice can hold it up.
//
// Requests that come while it is under way ask for one more, together. A slot that fails ends it,
// also what is queued: a restart that one slot did not survive is not tried on the others.
//
// Threads: one.
class Rollout {
 public:
  void request() { (active_ ? queued_ : requested_) = true; }
  void drop() { active_ = queued_ = requested_ = false; }
  [[nodiscard]] bool active() const { return active_ || requested_; }

  struct Advice {
    std::optional<std::size_t> restart;  // this slot, now
    bool ended = false;
    std::optional<std::size_t> failed;  // the slot because of which it ended
    friend bool operator==(const Advice&, const Advice&) = default;
  };
  // Called after request() and whenever a slot may have changed. The restart that it advises may
  // begin later: until the slot has another incarnation it counts as under way.
  [[nodiscard]] Advice advance(std::span<const RollSlot> slots);
  // An operator has taken the slot out: its restart is not waited for.
  void leave_out(std::size_t slot);

 private:
  void begin(std::span<const RollSlot> slots);

  bool requested_ = false;
  bool active_ = false;
  bool queued_ = false;
  std::deque<std::pair<std::size_t, Incarnation>> pending_;  // and whom each is to replace
  std::optional<std::pair<std::size_t, Incarnation>> current_;
};

}  // namespace phalanx::fleet
