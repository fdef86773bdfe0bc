// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/quarantine.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/manual_clock.h"

namespace phalanx::keeper {
namespace {

class QuarantineTest : public testing::Test {
 protected:
  void add(std::uint64_t id, std::string failure = "") {
    quarantine_.add({.id = id,
                     .resumes = true,
                     .failure = std::move(failure),
                     .strikes = 1,
                     .is_suspect = true});
  }

  void advance(Duration time) {
    clock_.advance(time);
    quarantine_.on_tick();
  }

  std::vector<std::uint64_t> refused() const {
    std::vector<std::uint64_t> ids;
    for (const FrontConnection& suspect : refused_) {
      ids.push_back(suspect.id);
    }
    return ids;
  }

  using Ids = std::vector<std::uint64_t>;

  test::ManualClock clock_;
  int restarts_ = 0;
  int stops_ = 0;
  Ids given_;
  std::vector<FrontConnection> refused_;
  Quarantine quarantine_{
      clock_,
      {[this] { ++restarts_; },
       [this] { ++stops_; },
       [this](const FrontConnection& suspect) { given_.push_back(suspect.id); },
       [this](FrontConnection suspect) { refused_.push_back(std::move(suspect)); }}};
};

TEST_F(QuarantineTest, ALifeOfTheFrontIsForOneSuspect) {
  add(1);
  EXPECT_EQ(restarts_, 1);
  EXPECT_EQ(given_, Ids{}) << "the front is not there yet";
  add(2);
  EXPECT_EQ(restarts_, 1) << "it is on its way";
  quarantine_.on_ready();
  EXPECT_EQ(given_, Ids{1}) << "the other one waits";
  EXPECT_EQ(quarantine_.size(), 2U);
  quarantine_.on_left();
  EXPECT_EQ(restarts_, 2) << "the next one gets a new process";
  EXPECT_FALSE(quarantine_.on_gone());
  quarantine_.on_ready();
  EXPECT_EQ(given_, (Ids{1, 2}));
  quarantine_.on_left();
  EXPECT_EQ(stops_, 1) << "there is none without a suspect";
  EXPECT_FALSE(quarantine_.on_gone());
  EXPECT_EQ(quarantine_.size(), 0U);
  add(3);
  EXPECT_EQ(restarts_, 3);
}

TEST_F(QuarantineTest, ASuspectThatItsFrontDiedOfWaitsForTheNextLife) {
  add(1);
  add(2);
  quarantine_.on_ready();
  EXPECT_FALSE(quarantine_.on_gone());
  add(1);
  EXPECT_EQ(restarts_, 1) << "what has died comes again by itself";
  quarantine_.on_ready();
  EXPECT_EQ(given_, (Ids{1, 2})) << "behind who has waited longer";
  EXPECT_FALSE(quarantine_.on_gone());
  quarantine_.on_ready();
  EXPECT_EQ(given_, (Ids{1, 2, 1}));
}

TEST_F(QuarantineTest, AFrontThatNobodyWaitsForAnyMoreEnds) {
  add(1);
  quarantine_.on_ready();
  EXPECT_FALSE(quarantine_.on_gone());
  quarantine_.on_ready();
  EXPECT_EQ(given_, Ids{1});
  EXPECT_EQ(stops_, 1);
}

TEST_F(QuarantineTest, ThoseThatAreTooManyAreRefused) {
  add(1);
  quarantine_.on_ready();
  for (std::uint64_t id = 2; id < 2 + Quarantine::kMaxWaiting; ++id) {
    add(id);
  }
  EXPECT_EQ(refused(), Ids{});
  add(100);
  add(101, "it is known what it does");
  ASSERT_EQ(refused(), (Ids{100, 101}));
  EXPECT_EQ(refused_[0].failure,
            "the request may have ended a process that worked for it, and could not be tried again "
            "alone");
  EXPECT_FALSE(refused_[0].is_suspect) << "whoever gets it has others, too";
  EXPECT_EQ(refused_[1].failure, "it is known what it does");
}

TEST_F(QuarantineTest, WhoWaitsTooLongIsRefused) {
  add(1);
  advance(Quarantine::kWaitTime / 2);
  add(2);
  advance(Quarantine::kWaitTime / 2 - std::chrono::milliseconds(1));
  EXPECT_EQ(refused(), Ids{});
  advance(std::chrono::milliseconds(1));
  EXPECT_EQ(refused(), Ids{1}) << "the front never came";
  quarantine_.on_ready();
  EXPECT_EQ(given_, Ids{2});
  advance(Quarantine::kWaitTime);
  EXPECT_EQ(refused(), Ids{1}) << "it does not wait any more";
}

TEST_F(QuarantineTest, OneThatLivesOnIsNoSuspectWhenOthersWait) {
  add(1);
  quarantine_.on_ready();
  advance(10 * Quarantine::kAloneTime);
  EXPECT_EQ(restarts_, 1) << "it is in nobody's way";
  add(2);
  advance(Duration::zero());
  EXPECT_EQ(restarts_, 2);
  advance(Duration::zero());
  EXPECT_EQ(restarts_, 2) << "its end is on the way";
  EXPECT_TRUE(quarantine_.on_gone());
  quarantine_.on_ready();
  EXPECT_EQ(given_, (Ids{1, 2}));
  add(3);
  advance(Quarantine::kAloneTime - std::chrono::milliseconds(1));
  EXPECT_EQ(restarts_, 2);
  EXPECT_FALSE(quarantine_.on_gone()) << "of its own";
}

TEST_F(QuarantineTest, NobodyIsTriedAnyMoreWhenItCloses) {
  add(1);
  quarantine_.on_ready();
  add(2);
  add(3);
  quarantine_.close();
  EXPECT_EQ(refused(), (Ids{2, 3})) << "the front is told what becomes of the first";
  EXPECT_FALSE(quarantine_.on_gone());
  add(1);
  EXPECT_EQ(refused(), (Ids{2, 3, 1}));
}

TEST_F(QuarantineTest, ThoseThatWaitMayLeave) {
  add(1);
  quarantine_.on_ready();
  add(2);
  add(3);
  EXPECT_EQ(quarantine_.waiting(), (Ids{2, 3}));
  EXPECT_EQ(quarantine_.size(), 3U);
  quarantine_.drop_waiting({1, 2});
  EXPECT_EQ(quarantine_.waiting(), Ids{3}) << "the first does not wait";
  EXPECT_EQ(quarantine_.size(), 2U);
  EXPECT_EQ(refused(), Ids{});
  quarantine_.drop_waiting({3});
  quarantine_.on_left();
  EXPECT_EQ(stops_, 1);
}

TEST_F(QuarantineTest, ALifeForOneThatHasLeftEndsWhenItIsReady) {
  add(1);
  quarantine_.drop_waiting({1});
  quarantine_.on_ready();
  EXPECT_EQ(given_, Ids{});
  EXPECT_EQ(stops_, 1);
}

}  // namespace
}  // namespace phalanx::keeper
