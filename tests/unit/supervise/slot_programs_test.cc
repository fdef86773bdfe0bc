// SPDX-License-Identifier: Apache-2.0
#include "phalanx/supervise/slot_programs.h"

#include <gtest/gtest.h>

namespace phalanx::supervise {
namespace {

os::HeldProgram program(const char* path) {
  return os::HeldProgram::open(path).value();
}

class SlotProgramsTest : public ::testing::Test {
 protected:
  const std::string& started(std::size_t slot, bool may_try = true) {
    return programs_.start(slot, may_try, now_).path();
  }

  static constexpr Duration kTrialTime = std::chrono::seconds(60);
  SteadyTime now_{};
  SlotPrograms programs_{program("/bin/sh"), 3, kTrialTime};
};

TEST_F(SlotProgramsTest, OneSlotTriesANewProgramAndOthersKeepTheProvenOne) {
  EXPECT_EQ(started(0), "/bin/sh");
  EXPECT_FALSE(programs_.offer(program("/bin/cat")));
  EXPECT_FALSE(programs_.trial());
  EXPECT_EQ(started(2, false), "/bin/sh") << "which tries nothing";
  EXPECT_EQ(started(1), "/bin/cat");
  EXPECT_EQ(started(0), "/bin/sh");
  EXPECT_EQ(programs_.trial(), 1U);
  programs_.on_ready(0);
  EXPECT_EQ(started(0), "/bin/sh");
  programs_.on_ready(1);
  EXPECT_FALSE(programs_.trial());
  EXPECT_EQ(started(0), "/bin/cat");
  EXPECT_EQ(started(2, false), "/bin/cat");
}

TEST_F(SlotProgramsTest, ASlotIsOutdatedUntilItIsStartedWithWhatWasOfferedLast) {
  EXPECT_EQ(started(0), "/bin/sh");
  EXPECT_FALSE(programs_.is_outdated(0));
  EXPECT_FALSE(programs_.offer(program("/bin/sh")));
  EXPECT_TRUE(programs_.is_outdated(0)) << "the same path, but perhaps another file";
  EXPECT_EQ(started(1), "/bin/sh");
  EXPECT_FALSE(programs_.is_outdated(1));
  EXPECT_EQ(started(0), "/bin/sh");
  EXPECT_TRUE(programs_.is_outdated(0)) << "it died during the trial: that is the old one again";
  programs_.on_ready(1);
  EXPECT_TRUE(programs_.is_outdated(0));
  EXPECT_FALSE(programs_.offer(program("/bin/cat")));
  EXPECT_EQ(started(1), "/bin/cat");
  EXPECT_TRUE(programs_.on_failed(1));
  EXPECT_TRUE(programs_.is_outdated(0)) << "what was proven before is still to come";
  EXPECT_EQ(started(0), "/bin/sh");
  EXPECT_FALSE(programs_.is_outdated(0));
}

TEST_F(SlotProgramsTest, ARefusedProgramIsForgotten) {
  EXPECT_FALSE(programs_.offer(program("/bin/cat")));
  EXPECT_EQ(started(1), "/bin/cat");
  EXPECT_FALSE(programs_.on_failed(0)) << "which tried nothing";
  EXPECT_EQ(programs_.on_failed(1), "/bin/cat");
  EXPECT_EQ(started(1), "/bin/sh");
  EXPECT_FALSE(programs_.on_failed(1));
  EXPECT_EQ(programs_.path(), "/bin/sh");
}

TEST_F(SlotProgramsTest, AProgramThatCameLaterIsTriedInstead) {
  EXPECT_FALSE(programs_.offer(program("/bin/cat")));
  EXPECT_EQ(started(1), "/bin/cat");
  EXPECT_EQ(programs_.offer(program("/bin/ls")), 1U) << "the slot that is to end";
  programs_.on_ready(1);
  EXPECT_EQ(started(0), "/bin/sh") << "the readiness of the one of before proves nothing";
  EXPECT_FALSE(programs_.on_failed(1)) << "nor is its end held against the other";
  EXPECT_EQ(programs_.path(), "/bin/ls");
  EXPECT_EQ(started(1), "/bin/ls");
  EXPECT_EQ(programs_.on_failed(1), "/bin/ls");
}

TEST_F(SlotProgramsTest, ATrialThatSomebodyEndsBeginsAgainElsewhereWithinItsTime) {
  EXPECT_FALSE(programs_.offer(program("/bin/cat")));
  EXPECT_EQ(started(1), "/bin/cat");
  programs_.on_ended(0);
  EXPECT_EQ(programs_.trial(), 1U) << "that was another one";
  programs_.on_ended(1);
  EXPECT_FALSE(programs_.trial());
  EXPECT_TRUE(programs_.is_outdated(0));
  now_ += kTrialTime / 2;
  EXPECT_EQ(started(2), "/bin/cat");
  EXPECT_EQ(started(1), "/bin/sh");
  EXPECT_TRUE(programs_.is_overdue(now_ + kTrialTime / 2)) << "from the first start on";
  programs_.on_ready(2);
  EXPECT_EQ(started(1), "/bin/cat");
}

TEST_F(SlotProgramsTest, ATrialIsOverdueAMinuteAfterItsStart) {
  EXPECT_FALSE(programs_.offer(program("/bin/cat")));
  EXPECT_FALSE(programs_.is_overdue(now_ + 2 * kTrialTime));
  EXPECT_EQ(started(1), "/bin/cat");
  EXPECT_FALSE(programs_.is_overdue(now_ + kTrialTime / 2));
  EXPECT_TRUE(programs_.is_overdue(now_ + kTrialTime));
}

}  // namespace
}  // namespace phalanx::supervise
