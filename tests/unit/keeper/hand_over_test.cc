// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/hand_over.h"

#include <unistd.h>

#include <memory>

#include <gtest/gtest.h>

namespace phalanx::keeper {
namespace {

constexpr std::uint64_t kConnection = 41;
constexpr os::TcpAccount kGiven{100, 2'000};
constexpr os::TcpAccount kNow{150, 2'500};

// A front that had the connection at place 1, and what it left of it.
class HandOver : public testing::Test {
 protected:
  // The journal of a dead front. `published`: something is kept of the connection at that place.
  static std::shared_ptr<FrontJournal> journal(bool published, std::uint64_t mark = 0) {
    auto made = *FrontJournal::create(FrontJournal::bytes_of(4, 0), 4);
    const wire::JournalOwner owner{.connection = kConnection, .published = published ? 1U : 0U};
    const auto at = static_cast<off_t>(wire::journal_record_offset(1));
    EXPECT_EQ(::pwrite(made->fd(), &owner, sizeof owner, at), ssize_t{sizeof owner});
    const wire::JournalHeader header{.marks = {0, mark, 0}};
    EXPECT_EQ(::pwrite(made->fd(), &header, sizeof header, 0), ssize_t{sizeof header});
    EXPECT_TRUE(made->close_for_writing());
    return made;
  }

  // It came at rest.
  static ConnectionTable::Orphan orphan() {
    return {{.id = kConnection, .place = 1, .account = kGiven}, kGiven};
  }

  // It resumed, and has not been at rest since.
  static ConnectionTable::Orphan resumed_orphan() {
    ConnectionTable::Orphan orphan{
        {.id = kConnection, .place = 1, .account = kGiven, .resumes = true, .left_at = 3},
        std::nullopt};
    orphan.connection.journal = journal(true);
    return orphan;
  }
};

TEST_F(HandOver, SuspectsAreThoseThatItWorkedForWhenItDiedOfThat) {
  using Ids = std::vector<std::uint64_t>;
  const std::vector<ConnectionTable::Orphan> had = {orphan(), {{.id = 7}, kGiven}};
  const auto suspects = [&](const FrontEnd& end) { return judge(end, had).suspects; };
  EXPECT_EQ(suspects({true, journal(true, kConnection)}), Ids{kConnection});
  EXPECT_EQ(suspects({true, journal(true, kConnection), 7}), Ids{7})
      << "the thread that crashed was at that one";
  EXPECT_EQ(suspects({true, nullptr, 7}), Ids{7});
  EXPECT_EQ(suspects({true, nullptr}), Ids{});
  EXPECT_EQ(suspects({true, journal(true)}), Ids{});
  EXPECT_EQ(suspects({false, journal(true, kConnection), 7}), Ids{});
  EXPECT_EQ(suspects({true, journal(true, kConnection), 8}), Ids{}) << "it had none like that";
  EXPECT_EQ(judge({true, nullptr, kConnection}, {}).suspects, Ids{});
}

TEST_F(HandOver, WhatIsWhereItWasAtRestRests) {
  ConnectionTable::Orphan rests = orphan();
  rests.connection.strikes = 1;
  rests.connection.is_suspect = true;
  EXPECT_EQ(hand_over(rests, kGiven, {true, journal(true), {kConnection}}), Fate::kRests);
  EXPECT_TRUE(rests.connection.goes_on);
  EXPECT_FALSE(rests.connection.resumes);
  EXPECT_EQ(rests.connection.account, kGiven);
  EXPECT_EQ(rests.connection.journal, nullptr);
  EXPECT_EQ(rests.connection.strikes, 0U) << "it was not worked for";
  EXPECT_FALSE(rests.connection.is_suspect);

  ConnectionTable::Orphan fresh{{.id = kConnection}, os::TcpAccount{}};
  EXPECT_EQ(hand_over(fresh, os::TcpAccount{}, {}), Fate::kRests);
  EXPECT_FALSE(fresh.connection.goes_on);
}

TEST_F(HandOver, ThreeFrontsMayDieOfAConnectionAtRest) {
  ConnectionTable::Orphan rests = orphan();
  const Verdict of_it{true, nullptr, {kConnection}};
  for (const Verdict& death :
       {of_it, Verdict{true, nullptr, {kConnection + 1}}, of_it, Verdict{false, nullptr}, of_it}) {
    EXPECT_EQ(hand_over(rests, kGiven, death), Fate::kRests);
    EXPECT_FALSE(rests.connection.is_suspect) << "nothing is in work for it";
  }
  EXPECT_EQ(hand_over(rests, kGiven, {true, nullptr}), Fate::kRests) << "of whatever that died";
  ConnectionTable::Orphan got_further = rests;
  got_further.connection.clear();
  EXPECT_EQ(hand_over(got_further, kGiven, of_it), Fate::kRests);
  EXPECT_EQ(hand_over(rests, kGiven, of_it), Fate::kCut);
}

TEST_F(HandOver, WhatTheJournalHoldsResumesFromThere) {
  ConnectionTable::Orphan left = orphan();
  const Verdict death{false, journal(true)};
  EXPECT_EQ(hand_over(left, kNow, death), Fate::kResumes);
  EXPECT_TRUE(left.connection.resumes);
  EXPECT_FALSE(left.connection.goes_on);
  EXPECT_EQ(left.connection.journal, death.journal);
  EXPECT_EQ(left.connection.left_at, 1U);
  EXPECT_EQ(left.connection.account, kNow);
  EXPECT_EQ(left.connection.failure, "");
}

TEST_F(HandOver, WithoutAccountOrRecordItIsCut) {
  for (const Verdict& death : {Verdict{}, Verdict{false, journal(false)}}) {
    ConnectionTable::Orphan left = orphan();
    EXPECT_EQ(hand_over(left, kNow, death), Fate::kCut);
  }
  ConnectionTable::Orphan without = orphan();
  EXPECT_EQ(hand_over(without, std::nullopt, {false, journal(true)}), Fate::kCut);
  ConnectionTable::Orphan elsewhere = orphan();
  elsewhere.connection.place = 2;
  EXPECT_EQ(hand_over(elsewhere, kNow, {false, journal(true)}), Fate::kOver)
      << "its front had taken it out of the journal";
  elsewhere.connection.place = wire::kNoJournalPlace;
  EXPECT_EQ(hand_over(elsewhere, kNow, {false, journal(true)}), Fate::kCut);
}

TEST_F(HandOver, OneThatResumedGoesOnFromTheNewerJournal) {
  ConnectionTable::Orphan left = resumed_orphan();
  const Verdict death{false, journal(true)};
  EXPECT_EQ(hand_over(left, kGiven, death), Fate::kResumes) << "also if nothing has moved";
  EXPECT_EQ(left.connection.journal, death.journal);
  EXPECT_EQ(left.connection.left_at, 1U);
}

TEST_F(HandOver, OneThatResumedAndWasNotTouchedGoesOnFromTheOlderJournal) {
  for (const Verdict& death : {Verdict{}, Verdict{false, journal(false)}}) {
    ConnectionTable::Orphan left = resumed_orphan();
    const auto older = left.connection.journal;
    EXPECT_EQ(hand_over(left, kGiven, death), Fate::kResumes);
    EXPECT_EQ(left.connection.journal, older);
    EXPECT_EQ(left.connection.left_at, 3U);
    EXPECT_EQ(left.connection.account, kGiven);
    ConnectionTable::Orphan moved = resumed_orphan();
    EXPECT_EQ(hand_over(moved, kNow, death), Fate::kCut) << "the older one knows nothing of that";
  }
}

TEST_F(HandOver, ThreeFrontsMayDieOfAConnectionAndAFourthOfItsFailure) {
  ConnectionTable::Orphan left = orphan();
  EXPECT_EQ(hand_over(left, kNow, {true, journal(true), {kConnection}}), Fate::kResumes);
  EXPECT_EQ(left.connection.strikes, 1U);
  EXPECT_TRUE(left.connection.is_suspect);
  EXPECT_EQ(left.connection.failure, "");
  left.rest.reset();
  left.connection.is_suspect = false;  // it is taken for none
  for (const Verdict& innocent :
       {Verdict{false, journal(true)}, Verdict{true, journal(true)}, Verdict{true, nullptr}}) {
    EXPECT_EQ(hand_over(left, kNow, innocent), Fate::kResumes);
    EXPECT_EQ(left.connection.strikes, 1U);
    EXPECT_FALSE(left.connection.is_suspect);
  }
  EXPECT_EQ(hand_over(left, kNow, {true, journal(true), {kConnection}}), Fate::kResumes);
  EXPECT_EQ(left.connection.failure, "") << "only one of them had nothing else to do";
  EXPECT_TRUE(left.connection.is_suspect);
  EXPECT_EQ(hand_over(left, kNow, {true, journal(true), {kConnection}}), Fate::kResumes);
  EXPECT_EQ(left.connection.failure,
            "the request ended the processes that worked for it; it is not tried again");
  EXPECT_TRUE(left.connection.is_suspect) << "nobody else is to see what comes of its failure";
  EXPECT_EQ(hand_over(left, kNow, {false, journal(true)}), Fate::kResumes);
  EXPECT_NE(left.connection.failure, "") << "until it is at rest";
  EXPECT_EQ(hand_over(left, kNow, {true, journal(true), {kConnection}}), Fate::kCut);
}

TEST_F(HandOver, FrontsDoNotDieForEverWithAConnectionThatGetsNoByteFurther) {
  ConnectionTable::Orphan left = resumed_orphan();
  const Verdict unexplained{true, journal(true)};
  for (std::uint32_t i = 1; i < kMaxUnexplainedDeaths; ++i) {
    ASSERT_EQ(hand_over(left, kGiven, unexplained), Fate::kResumes);
    ASSERT_EQ(left.connection.failure, "") << i;
  }
  EXPECT_EQ(hand_over(left, kGiven, {false, journal(true)}), Fate::kResumes);
  EXPECT_EQ(hand_over(left, kGiven, {true, journal(true), {7}}), Fate::kResumes);
  EXPECT_EQ(left.connection.failure, "") << "somebody else is suspected";
  EXPECT_EQ(hand_over(left, kNow, unexplained), Fate::kResumes);
  EXPECT_EQ(left.connection.failure, "") << "it has got further";
  for (std::uint32_t i = 1; i < kMaxUnexplainedDeaths; ++i) {
    EXPECT_EQ(hand_over(left, kNow, unexplained), Fate::kResumes);
  }
  EXPECT_NE(left.connection.failure, "");
  EXPECT_EQ(left.connection.strikes, 0U);
  EXPECT_EQ(hand_over(left, kNow, unexplained), Fate::kCut);
}

}  // namespace
}  // namespace phalanx::keeper
