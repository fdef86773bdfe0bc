// SPDX-License-Identifier: Apache-2.0
#include "phalanx/fleet/rollout.h"

#include <vector>

#include <gtest/gtest.h>

namespace phalanx::fleet {
namespace {

using Condition = RollSlot::Condition;
using Advice = Rollout::Advice;

const Advice kWait{};
const Advice kEnd{std::nullopt, true, std::nullopt};

Advice restart(std::size_t slot) {
  return {slot, false, std::nullopt};
}

struct Fleet {
  explicit Fleet(std::size_t count) : slots(count, RollSlot{Condition::kReady, Incarnation(1)}) {}

  Advice advance() { return rollout.advance(slots); }

  // What a supervisor makes of an advice to restart, and of the start after it.
  void leave(std::size_t slot) {
    slots[slot].condition = Condition::kComing;
    slots[slot].incarnation = Incarnation(slots[slot].incarnation.value() + 1);
  }
  void come(std::size_t slot) { slots[slot].condition = Condition::kReady; }

  // Restarts advised slots until the roll waits or ends; which they were.
  std::vector<std::size_t> run() {
    std::vector<std::size_t> restarted;
    while (const auto slot = advance().restart) {
      restarted.push_back(*slot);
      leave(*slot);
      EXPECT_EQ(advance(), kWait);
      come(*slot);
    }
    return restarted;
  }

  std::vector<RollSlot> slots;
  Rollout rollout;
};

TEST(Rollout, DoesNothingUnasked) {
  Fleet fleet(2);
  EXPECT_EQ(fleet.advance(), kWait);
  EXPECT_FALSE(fleet.rollout.active());
}

TEST(Rollout, RestartsOneAfterTheOther) {
  Fleet fleet(3);
  fleet.rollout.request();
  for (std::size_t slot = 0; slot < 3; ++slot) {
    EXPECT_EQ(fleet.advance(), restart(slot));
    fleet.leave(slot);
    EXPECT_EQ(fleet.advance(), kWait);
    EXPECT_EQ(fleet.advance(), kWait);
    fleet.come(slot);
  }
  EXPECT_EQ(fleet.advance(), kEnd);
  EXPECT_FALSE(fleet.rollout.active());
  EXPECT_EQ(fleet.advance(), kWait);
}

TEST(Rollout, WaitsUntilTheRestartIsUnderWayWhateverTheSlotLooksLikeUntilThen) {
  for (const Condition before : {Condition::kReady, Condition::kFailed}) {
    Fleet fleet(2);
    fleet.slots[0].condition = before;
    fleet.rollout.request();
    EXPECT_EQ(fleet.advance(), restart(0));
    EXPECT_EQ(fleet.advance(), kWait);
    fleet.slots[0].condition = Condition::kHeld;  // stopped, before its successor starts
    EXPECT_EQ(fleet.advance(), kWait);
    fleet.leave(0);
    EXPECT_EQ(fleet.advance(), kWait);
    fleet.come(0);
    EXPECT_EQ(fleet.advance(), restart(1));
  }
}

TEST(Rollout, QueuesOneMoreHoweverOftenItIsAsked) {
  Fleet fleet(2);
  fleet.rollout.request();
  EXPECT_EQ(fleet.advance(), restart(0));
  fleet.leave(0);
  for (int i = 0; i < 5; ++i) {
    fleet.rollout.request();
    EXPECT_EQ(fleet.advance(), kWait);
  }
  fleet.come(0);
  EXPECT_EQ(fleet.run(), (std::vector<std::size_t>{1, 0, 1}));
  EXPECT_FALSE(fleet.rollout.active());
  fleet.rollout.request();
  EXPECT_EQ(fleet.run(), (std::vector<std::size_t>{0, 1}));
}

TEST(Rollout, TakesNoneAwayWhileAnotherIsAway) {
  Fleet fleet(3);
  fleet.slots[2].condition = Condition::kComing;
  fleet.rollout.request();
  EXPECT_EQ(fleet.advance(), kWait);
  fleet.come(2);
  EXPECT_EQ(fleet.advance(), restart(0));
  fleet.leave(0);
  fleet.leave(1);  // it dies by itself
  fleet.come(0);
  EXPECT_EQ(fleet.advance(), kWait);
  fleet.come(1);
  EXPECT_EQ(fleet.advance(), restart(2)) << "slot 1 has been started again since the request";
}

TEST(Rollout, EndsWithTheSlotThatFailsAndBeginsAnewWhenAsked) {
  Fleet fleet(2);
  fleet.rollout.request();
  EXPECT_EQ(fleet.advance(), restart(0));
  fleet.leave(0);
  fleet.rollout.request();
  fleet.slots[0].condition = Condition::kFailed;
  EXPECT_EQ(fleet.advance(), (Advice{std::nullopt, true, std::size_t{0}}));
  EXPECT_EQ(fleet.advance(), kWait) << "what was queued is dropped too";
  fleet.rollout.request();
  EXPECT_EQ(fleet.run(), (std::vector<std::size_t>{0, 1}));
}

TEST(Rollout, BeginsWithWhatIsDownAlready) {
  Fleet fleet(3);
  fleet.slots[1].condition = Condition::kFailed;
  fleet.rollout.request();
  EXPECT_EQ(fleet.run(), (std::vector<std::size_t>{1, 0, 2}));
}

TEST(Rollout, LeavesAloneWhatAnOperatorKeepsOut) {
  Fleet fleet(3);
  fleet.slots[0].condition = Condition::kHeld;
  fleet.rollout.request();
  EXPECT_EQ(fleet.advance(), restart(1));
  fleet.leave(1);
  fleet.slots[1].condition = Condition::kHeld;  // taken out before it came back
  EXPECT_EQ(fleet.advance(), restart(2));
  fleet.slots[2].condition = Condition::kHeld;  // taken out before it left
  EXPECT_EQ(fleet.advance(), kWait);
  fleet.rollout.leave_out(2);
  EXPECT_EQ(fleet.advance(), kEnd);
}

TEST(Rollout, IsDropped) {
  Fleet fleet(2);
  fleet.rollout.request();
  EXPECT_EQ(fleet.advance(), restart(0));
  fleet.rollout.request();
  fleet.rollout.drop();
  EXPECT_EQ(fleet.advance(), kWait);
  EXPECT_FALSE(fleet.rollout.active());
}

}  // namespace
}  // namespace phalanx::fleet
