// SPDX-License-Identifier: Apache-2.0
#include "phalanx/engine/collective_step.h"

#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace phalanx::engine {
namespace {

using wire::RankOp;
using wire::Sent;

class FakePort final : public RankPort {
 public:
  Sent send(RankId rank, std::string_view frame) override {
    const Sent answer = answers.contains(rank) ? answers.at(rank) : Sent::kQueued;
    if (answer == Sent::kQueued) {
      sent.emplace_back(rank, frame);
    }
    return answer;
  }
  void raise_abort() override { ++aborts; }
  void kill(RankId rank) override { killed.push_back(rank); }

  std::map<RankId, Sent> answers;
  std::vector<std::pair<RankId, std::string>> sent;
  std::vector<RankId> killed;
  int aborts = 0;
};

const StepIdentity kStep{Epoch(3), StepId(8), RankOp::kStep};
const StepLimits kLimits{4, 5, 3};

class CollectiveStepTest : public ::testing::Test {
 protected:
  CollectiveStep& begin(std::uint32_t ranks = 3) {
    step_ = std::make_unique<CollectiveStep>(port, kStep, "frame", ranks, kLimits, at(0));
    ranks_ = ranks;
    return *step_;
  }
  static SteadyTime at(int ms) { return SteadyTime(std::chrono::milliseconds(ms)); }

  static wire::RankReply reply(std::uint32_t rank, Code code = Code{0}) {
    wire::RankReply answer;
    answer.epoch = kStep.epoch;
    answer.step = kStep.step;
    answer.op = kStep.op;
    answer.rank = RankId(rank);
    answer.code = static_cast<std::uint32_t>(code);
    answer.message = code == Code{0} ? "" : "what happened";
    return answer;
  }
  bool take(const wire::RankReply& answer) { return step_->on_reply(answer.rank, answer, at(7)); }
  void tick(int times, std::vector<std::uint8_t> moved = {}, bool counted = true) {
    moved.resize(ranks_);
    for (int i = 0; i < times; ++i) {
      step_->on_tick({counted, moved});
    }
  }
  void end() { step_.reset(); }

  FakePort port;

 private:
  std::unique_ptr<CollectiveStep> step_;
  std::uint32_t ranks_ = 0;
};

TEST_F(CollectiveStepTest, SendsTheSameFrameToAllAndEndsWithTheLastAnswer) {
  CollectiveStep& step = begin();
  ASSERT_EQ(port.sent.size(), 3U);
  EXPECT_EQ(port.sent[2], std::pair(RankId(2), std::string("frame")));
  EXPECT_TRUE(take(reply(2)));
  EXPECT_TRUE(take(reply(0)));
  EXPECT_FALSE(step.done());
  EXPECT_TRUE(take(reply(1)));
  EXPECT_TRUE(step.done());
  EXPECT_TRUE(step.ok());
  EXPECT_EQ(step.took(RankId(1)), std::chrono::milliseconds(7));
  EXPECT_EQ(port.aborts, 0);
}

TEST_F(CollectiveStepTest, DropsRepliesOfAnyOtherIdentity) {
  CollectiveStep& step = begin(1);
  wire::RankReply old = reply(0);
  old.epoch = Epoch(2);
  EXPECT_FALSE(take(old));
  old = reply(0);
  old.step = StepId(7);
  EXPECT_FALSE(take(old));
  old = reply(0);
  old.op = RankOp::kPing;
  EXPECT_FALSE(take(old));
  EXPECT_FALSE(step.done());
  EXPECT_TRUE(take(reply(0)));
  EXPECT_FALSE(take(reply(0))) << "a second copy";
  EXPECT_TRUE(step.ok());
}

TEST_F(CollectiveStepTest, TakesAnAnswerUnderAnotherNameForAFault) {
  CollectiveStep& step = begin(2);
  EXPECT_TRUE(step.on_reply(RankId(0), reply(1), at(1)));
  EXPECT_TRUE(take(reply(1)));
  ASSERT_FALSE(step.ok());
  EXPECT_EQ(step.fault().combined().code(), Code::kDataLoss);
}

TEST_F(CollectiveStepTest, AbortsAtTheFirstErrorAndWaitsForTheRest) {
  CollectiveStep& step = begin();
  EXPECT_TRUE(take(reply(1, Code::kInternal)));
  EXPECT_EQ(port.aborts, 1);
  EXPECT_FALSE(step.done());
  EXPECT_TRUE(take(reply(0, Code::kAborted)));
  EXPECT_TRUE(take(reply(2, Code::kAborted)));
  EXPECT_TRUE(step.done());
  EXPECT_EQ(port.aborts, 1) << "once is enough";
  const StepFault fault = step.fault();
  ASSERT_EQ(fault.ranks.size(), 3U);
  EXPECT_EQ(fault.ranks[0].rank, RankId(1)) << "the cause first";
  EXPECT_EQ(fault.combined().code(), Code::kInternal);
}

TEST_F(CollectiveStepTest, CountsADeathAsAnOutcome) {
  CollectiveStep& step = begin(2);
  EXPECT_TRUE(take(reply(0)));
  step.on_death(RankId(0), RankDeath{true, SIGKILL, "killed"});
  EXPECT_EQ(port.aborts, 0) << "it had answered";
  step.on_death(RankId(1), RankDeath{true, SIGKILL, "killed by SIGKILL"});
  EXPECT_TRUE(step.done());
  EXPECT_EQ(port.aborts, 1);
  EXPECT_EQ(step.fault().combined().message(), "rank 1: unavailable: it died: killed by SIGKILL");
}

TEST_F(CollectiveStepTest, StopsTheFanOutAtAClosedLinkAndDrainsTheOthers) {
  port.answers[RankId(1)] = Sent::kClosed;
  CollectiveStep& step = begin(4);
  EXPECT_EQ(port.sent.size(), 1U);
  EXPECT_EQ(port.killed, std::vector<RankId>{RankId(1)});
  EXPECT_FALSE(step.done()) << "rank 0 was asked";
  EXPECT_TRUE(take(reply(0, Code::kAborted)));
  ASSERT_TRUE(step.done());
  const StepFault fault = step.fault();
  EXPECT_EQ(fault.never_asked, (std::vector<RankId>{RankId(2), RankId(3)}));
  EXPECT_EQ(fault.ranks[0].kind, RankFailure::Kind::kKilled);
}

TEST_F(CollectiveStepTest, TriesABlockedLinkAgainUntilItsDeadline) {
  port.answers[RankId(0)] = Sent::kWouldBlock;
  CollectiveStep& step = begin(2);
  EXPECT_EQ(port.sent.size(), 1U) << "the others are asked meanwhile";
  step.on_writable(RankId(0));
  tick(3);
  port.answers.clear();
  step.on_writable(RankId(0));
  EXPECT_EQ(port.sent.size(), 2U);
  EXPECT_TRUE(take(reply(0)));
  EXPECT_TRUE(take(reply(1)));
  EXPECT_TRUE(step.ok());

  port.answers[RankId(0)] = Sent::kWouldBlock;
  CollectiveStep& other = begin(1);
  tick(3);
  EXPECT_TRUE(port.killed.empty());
  tick(1);
  EXPECT_EQ(port.killed, std::vector<RankId>{RankId(0)});
  EXPECT_TRUE(other.done());
}

TEST_F(CollectiveStepTest, OwesNothingToWhoWasNeverReached) {
  port.answers[RankId(0)] = Sent::kWouldBlock;
  CollectiveStep& step = begin(2);
  EXPECT_TRUE(take(reply(1, Code::kInternal)));
  EXPECT_TRUE(step.done());
  EXPECT_EQ(step.fault().never_asked, std::vector<RankId>{RankId(0)});
}

TEST_F(CollectiveStepTest, AbortsThenKillsWhenNothingMoves) {
  CollectiveStep& step = begin(2);
  EXPECT_TRUE(take(reply(0)));
  tick(4);
  tick(50, {1, 0}, false);  // late ticks do not count
  EXPECT_EQ(port.aborts, 0);
  tick(1, {1, 0});  // nor does the movement of one that has answered
  EXPECT_EQ(port.aborts, 1);
  tick(2);
  EXPECT_TRUE(port.killed.empty());
  tick(1);
  EXPECT_EQ(port.killed, std::vector<RankId>{RankId(1)});
  ASSERT_TRUE(step.done());
  EXPECT_EQ(step.fault().combined().code(), Code::kDeadlineExceeded);
}

TEST_F(CollectiveStepTest, IsPatientWhileAnythingMoves) {
  CollectiveStep& step = begin(2);
  for (int i = 0; i < 100; ++i) {
    tick(4);
    tick(1, {0, 1});
  }
  EXPECT_EQ(port.aborts, 0);
  EXPECT_EQ(step.longest_gap(), 4U);
  EXPECT_TRUE(take(reply(0)));
  EXPECT_TRUE(take(reply(1)));
}

// Replica and ranks share cores: where the ranks run, the ticks of the replica are late.
TEST_F(CollectiveStepTest, MovementThatALateTickSeesIsMovement) {
  begin(2);
  for (int i = 0; i < 20; ++i) {
    tick(1, {1, 1}, false);
    tick(1, {0, 0}, true);
  }
  EXPECT_EQ(port.aborts, 0);
}

TEST_F(CollectiveStepTest, NamesTheHangWhenTheAbortFreedEverybody) {
  CollectiveStep& step = begin(2);
  tick(5);
  EXPECT_TRUE(take(reply(0, Code::kAborted)));
  tick(1, {0, 1});  // it comes to an end of its work
  EXPECT_TRUE(take(reply(1, Code::kAborted)));
  EXPECT_TRUE(port.killed.empty());
  EXPECT_EQ(step.fault().own->message(), "no rank made progress for 5 ticks");
}

TEST_F(CollectiveStepTest, KeepsItsOwnErrorFirst) {
  CollectiveStep& step = begin(2);
  step.fail_own(data_loss("the ring is torn"));
  EXPECT_EQ(port.aborts, 1);
  EXPECT_FALSE(step.done()) << "the ranks are still drained";
  EXPECT_TRUE(take(reply(0)));
  EXPECT_TRUE(take(reply(1, Code::kResourceExhausted)));
  EXPECT_EQ(step.fault().combined().to_string(),
            "data_loss: replica: data_loss: the ring is torn; rank 1: resource_exhausted: what "
            "happened");
}

TEST_F(CollectiveStepTest, WaitsForTheEndOfASuspect) {
  CollectiveStep& step = begin(2);
  EXPECT_TRUE(step.suspect(RankId(1), unavailable("its lifeline is free")));
  EXPECT_EQ(port.aborts, 1);
  EXPECT_TRUE(take(reply(0, Code::kAborted)));
  EXPECT_FALSE(step.done());
  step.on_death(RankId(1), RankDeath{true, SIGKILL, "SIGKILL"});
  ASSERT_TRUE(step.done());
  EXPECT_EQ(step.fault().ranks[0].error.message(), "its lifeline is free: it died: SIGKILL");
}

TEST_F(CollectiveStepTest, FailsEvenIfASuspectAnswers) {
  CollectiveStep& step = begin(1);
  EXPECT_TRUE(step.suspect(RankId(0), unavailable("its lifeline is free")));
  EXPECT_TRUE(take(reply(0)));
  ASSERT_TRUE(step.done());
  EXPECT_FALSE(step.ok()) << "nobody knows whether it had finished";
}

TEST_F(CollectiveStepTest, KeepsASuspicionThatAnAnswerToTheAbortCrossed) {
  CollectiveStep& step = begin(1);
  EXPECT_TRUE(step.suspect(RankId(0), unavailable("it was stopped by a signal")));
  EXPECT_TRUE(take(reply(0, Code::kAborted)));
  ASSERT_TRUE(step.done());
  EXPECT_EQ(step.fault().ranks[0].kind, RankFailure::Kind::kSuspected);
}

TEST_F(CollectiveStepTest, NamesEveryRankThatDiverged) {
  CollectiveStep& step = begin();
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    wire::RankReply answer = reply(rank);
    answer.state_hash = rank == 0 ? 5 : 6;
    EXPECT_TRUE(take(answer));
  }
  step.verify_state(5);
  EXPECT_FALSE(step.ok());
  const StepFault fault = step.fault();
  ASSERT_EQ(fault.ranks.size(), 2U);
  EXPECT_EQ(fault.ranks[0].rank, RankId(1));
  EXPECT_EQ(fault.ranks[1].kind, RankFailure::Kind::kDiverged);
}

TEST_F(CollectiveStepTest, LeavesNobodyBehindWhenItIsDestroyed) {
  begin(3);
  EXPECT_TRUE(take(reply(1)));
  end();
  EXPECT_EQ(port.aborts, 1);
  EXPECT_EQ(port.killed, (std::vector<RankId>{RankId(0), RankId(2)}));
}

TEST(RankDeath, TrustsTheKvOfWhoeverWasEndedFromOutside) {
  for (const int signal : {SIGKILL, SIGTERM, SIGINT, SIGHUP}) {
    EXPECT_TRUE(kv_survives(RankDeath{true, signal, ""}));
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS}) {
    EXPECT_FALSE(kv_survives(RankDeath{true, signal, "", DeathOrigin::kOwn}));
    EXPECT_TRUE(kv_survives(RankDeath{true, signal, "", DeathOrigin::kSent}));
  }
  EXPECT_TRUE(kv_survives(RankDeath{false, SIGSEGV, "an exit status"}));
}

}  // namespace
}  // namespace phalanx::engine
