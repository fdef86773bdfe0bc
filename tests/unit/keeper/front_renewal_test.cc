// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/front_renewal.h"

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/keeper/connection_table.h"
#include "phalanx/supervise/slot_programs.h"

#include "support/manual_clock.h"

namespace phalanx::keeper {
namespace {

constexpr auto kMoment = std::chrono::milliseconds(1);

os::HeldProgram program(const char* path) {
  return os::HeldProgram::open(path).value();
}

// Two active fronts, 0 and 1, and the spare one, 2, with no process.
class FrontRenewalTest : public testing::Test {
 protected:
  using Fronts = std::vector<std::size_t>;

  FrontRenewalTest() {
    for (std::size_t front = 0; front < ready_.size(); ++front) {
      start(front);
      get_ready(front);
    }
  }

  void renew(const char* path) {
    const auto trial = programs_.offer(program(path));
    if (trial) {
      end(*trial);
      start(*trial);
    }
    renewal_.advance();
  }

  void start(std::size_t front) {
    runs_[front] = programs_.start(front, true, clock_.now()).path();
  }

  void get_ready(std::size_t front) {
    programs_.on_ready(front);
    ready_[front] = true;
    table_.on_front_ready(front);
    renewal_.advance();
  }

  // Its process is no more, and another one is not yet started.
  void end(std::size_t front) {
    if (!ready_[front]) {
      refused_ = programs_.on_failed(front).value_or("");
      return;
    }
    ready_[front] = false;
    renewal_.on_gone(front);
    static_cast<void>(table_.on_front_gone(front));
  }

  void begin_again(std::size_t front) {
    end(front);
    start(front);
    renewal_.advance();
    get_ready(front);
  }

  // The active front with the fewest gets them, the lowest first.
  void connect(std::uint64_t id) { table_.add({.id = id}); }

  void leave(std::size_t front, std::uint64_t id) {
    EXPECT_TRUE(table_.remove(front, id));
    renewal_.advance();
  }

  void advance(Duration time) {
    clock_.advance(time);
    renewal_.advance();
  }

  test::ManualClock clock_;
  supervise::SlotPrograms programs_{program("/bin/sh"), 3, std::chrono::seconds(60)};
  ConnectionTable table_{3, 2, 8, [](std::size_t, const FrontConnection&) {}};
  std::array<bool, 3> ready_{};
  std::array<std::string, 3> runs_;
  std::string refused_;
  Fronts retired_;
  Fronts judged_;
  Fronts replaced_;
  bool would_cut_ = false;
  FrontRenewal renewal_{clock_,
                        3,
                        {[this] { return programs_.trial().has_value(); },
                         [this](std::size_t front) {
                           return FrontRenewal::View{ready_[front] && programs_.is_outdated(front),
                                                     table_.active(front),
                                                     table_.spare(front),
                                                     table_.count(front)};
                         },
                         [this](std::size_t front) {
                           retired_.push_back(front);
                           table_.retire(front);
                         },
                         [this](std::size_t front) {
                           judged_.push_back(front);
                           return would_cut_;
                         },
                         [this](std::size_t front) { replaced_.push_back(front); }}};
};

TEST_F(FrontRenewalTest, ReplacesOneAtATimeAndTheSpareOneFirst) {
  renew("/bin/cat");
  EXPECT_EQ(replaced_, Fronts{2});
  advance(2 * FrontRenewal::kMaxRetireTime);
  EXPECT_EQ(replaced_, Fronts{2}) << "its end is on the way";
  end(2);
  renewal_.advance();
  EXPECT_EQ(replaced_, Fronts{2}) << "nobody could get the connections of an active one";
  start(2);
  renewal_.advance();
  EXPECT_EQ(replaced_, Fronts{2});
  get_ready(2);
  EXPECT_EQ(replaced_, (Fronts{2, 0}));
  EXPECT_TRUE(table_.active(2)) << "in place of the one that is to end";
  begin_again(0);
  EXPECT_EQ(replaced_, (Fronts{2, 0, 1}));
  begin_again(1);
  EXPECT_EQ(replaced_, (Fronts{2, 0, 1})) << "all run the new one";
  EXPECT_EQ(retired_, replaced_);
  EXPECT_EQ(runs_, (std::array<std::string, 3>{"/bin/cat", "/bin/cat", "/bin/cat"}));
}

TEST_F(FrontRenewalTest, AProgramThatDoesNotGetReadyChangesNothing) {
  renew("/bin/false");
  end(2);
  start(2);
  EXPECT_EQ(runs_[2], "/bin/false");
  advance(FrontRenewal::kMaxRetireTime);
  EXPECT_EQ(replaced_, Fronts{2}) << "it has not proved itself";
  end(2);
  EXPECT_EQ(refused_, "/bin/false");
  start(2);
  get_ready(2);
  advance(FrontRenewal::kMaxRetireTime);
  EXPECT_EQ(replaced_, Fronts{2});
  EXPECT_EQ(runs_, (std::array<std::string, 3>{"/bin/sh", "/bin/sh", "/bin/sh"}));
  EXPECT_TRUE(table_.active(0) && table_.active(1) && table_.spare(2));
}

TEST_F(FrontRenewalTest, NothingElseIsReplacedWhileAProgramIsTried) {
  connect(7);
  renew("/bin/cat");
  begin_again(2);
  EXPECT_EQ(retired_, (Fronts{2, 0}));
  renew("/bin/false");
  end(1);
  start(1);
  EXPECT_EQ(runs_[1], "/bin/false");
  leave(0, 7);
  advance(FrontRenewal::kMaxRetireTime);
  EXPECT_EQ(replaced_, Fronts{2}) << "two would be missing";
  end(1);
  EXPECT_EQ(refused_, "/bin/false");
  start(1);
  get_ready(1);
  EXPECT_EQ(replaced_, (Fronts{2, 0}));
}

TEST_F(FrontRenewalTest, AnotherProgramMayComeWhileTheOneBeforeIsTried) {
  renew("/bin/cat");
  end(2);
  start(2);
  renew("/bin/ls");
  EXPECT_EQ(runs_[2], "/bin/ls");
  EXPECT_EQ(refused_, "") << "it ended for the other one";
  EXPECT_EQ(replaced_, Fronts{2});
  get_ready(2);
  begin_again(0);
  begin_again(1);
  EXPECT_EQ(replaced_, (Fronts{2, 0, 1}));
  EXPECT_EQ(runs_, (std::array<std::string, 3>{"/bin/ls", "/bin/ls", "/bin/ls"}));
}

TEST_F(FrontRenewalTest, AnotherProgramMayComeWhileAFrontIsWaitedFor) {
  would_cut_ = true;
  connect(7);
  renew("/bin/cat");
  begin_again(2);
  EXPECT_EQ(retired_, (Fronts{2, 0}));
  renew("/bin/ls");
  advance(FrontRenewal::kRetireTime);
  EXPECT_EQ(retired_, (Fronts{2, 0})) << "still one at a time, though the first is outdated again";
  leave(0, 7);
  EXPECT_EQ(replaced_, (Fronts{2, 0}));
  begin_again(0);
  EXPECT_EQ(runs_[0], "/bin/ls");
  begin_again(1);
  begin_again(2);
  EXPECT_EQ(replaced_, (Fronts{2, 0, 1, 2}));
  EXPECT_EQ(runs_, (std::array<std::string, 3>{"/bin/ls", "/bin/ls", "/bin/ls"}));
}

TEST_F(FrontRenewalTest, OneThatDiesWhileItIsWaitedForIsDone) {
  would_cut_ = true;
  connect(7);
  renew("/bin/cat");
  begin_again(2);
  EXPECT_EQ(retired_, (Fronts{2, 0}));
  begin_again(0);
  EXPECT_EQ(runs_[0], "/bin/cat");
  EXPECT_EQ(retired_, (Fronts{2, 0, 1})) << "the next one in its place runs the new program";
  EXPECT_EQ(replaced_, (Fronts{2, 1}));
}

TEST_F(FrontRenewalTest, TheDeathOfAnotherFrontEndsNoWait) {
  would_cut_ = true;
  connect(7);
  renew("/bin/cat");
  begin_again(2);
  EXPECT_EQ(retired_, (Fronts{2, 0}));
  begin_again(1);
  EXPECT_EQ(retired_, (Fronts{2, 0}));
  EXPECT_EQ(replaced_, Fronts{2});
  leave(0, 7);
  EXPECT_EQ(replaced_, (Fronts{2, 0}));
}

TEST_F(FrontRenewalTest, NothingIsReplacedBehindAShutdown) {
  connect(7);
  renew("/bin/cat");
  begin_again(2);
  EXPECT_EQ(retired_, (Fronts{2, 0}));
  renewal_.close();
  advance(FrontRenewal::kMaxRetireTime);
  leave(0, 7);
  EXPECT_EQ(replaced_, Fronts{2}) << "which waits for the last answers, as all do";
  begin_again(0);
  advance(FrontRenewal::kMaxRetireTime);
  EXPECT_EQ(retired_, (Fronts{2, 0}));
}

TEST_F(FrontRenewalTest, WhatGoesOnElsewhereIsWaitedForAMoment) {
  connect(7);
  renew("/bin/cat");
  begin_again(2);
  advance(FrontRenewal::kRetireTime - kMoment);
  EXPECT_EQ(judged_, Fronts{});
  EXPECT_EQ(replaced_, Fronts{2});
  advance(kMoment);
  EXPECT_EQ(judged_, Fronts{0});
  EXPECT_EQ(replaced_, (Fronts{2, 0}));
}

TEST_F(FrontRenewalTest, WhatWouldEndIsWaitedForButNotForEver) {
  would_cut_ = true;
  connect(7);
  renew("/bin/cat");
  begin_again(2);
  advance(FrontRenewal::kRetireTime);
  advance(FrontRenewal::kJudgePeriod - kMoment);
  EXPECT_EQ(judged_, Fronts{0}) << "that is a look at each connection";
  advance(kMoment);
  EXPECT_EQ(judged_, (Fronts{0, 0}));
  advance(FrontRenewal::kMaxRetireTime - FrontRenewal::kRetireTime - FrontRenewal::kJudgePeriod -
          kMoment);
  EXPECT_EQ(replaced_, Fronts{2});
  advance(FrontRenewal::kJudgePeriod);
  EXPECT_EQ(replaced_, (Fronts{2, 0}));
}

}  // namespace
}  // namespace phalanx::keeper
