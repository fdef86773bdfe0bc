// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/connection_table.h"

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace phalanx::keeper {
namespace {

constexpr SteadyTime kNow{std::chrono::seconds(100)};
constexpr SteadyTime kLater{std::chrono::seconds(130)};

class ConnectionTableTest : public testing::Test {
 protected:
  using Given = std::pair<std::size_t, std::uint64_t>;  // front, connection

  void add(std::uint64_t id) { table_.add({.id = id, .peer = "127.0.0.1:41000"}); }

  std::vector<std::uint64_t> lose(std::size_t front) {
    orphans_ = table_.on_front_gone(front);
    std::vector<std::uint64_t> ids;
    for (const ConnectionTable::Orphan& orphan : orphans_) {
      ids.push_back(orphan.connection.id);
    }
    return ids;
  }

  // The only orphan rests where it is.
  void hand_on() {
    orphans_[0].connection.account = *orphans_[0].rest;
    table_.add(orphans_[0].connection);
  }

  void make_ready() {
    for (std::size_t front = 0; front < 3; ++front) {
      table_.on_front_ready(front);
    }
  }

  std::vector<Given> given_;
  std::vector<FrontConnection> newcomers_;
  std::vector<ConnectionTable::Orphan> orphans_;
  bool ends_at_once_ = false;
  ConnectionTable table_{3, 3, 3, [this](std::size_t front, const FrontConnection& connection) {
                           given_.emplace_back(front, connection.id);
                           newcomers_.push_back(connection);
                           if (ends_at_once_) {
                             EXPECT_TRUE(table_.remove(front, connection.id));
                           }
                         }};
};

TEST_F(ConnectionTableTest, GivesAConnectionToTheFrontThatHasTheFewest) {
  make_ready();
  for (std::uint64_t id = 1; id <= 5; ++id) {
    add(id);
  }
  EXPECT_EQ(given_, (std::vector<Given>{{0, 1}, {1, 2}, {2, 3}, {0, 4}, {1, 5}}));
  EXPECT_TRUE(table_.remove(1, 2));
  EXPECT_TRUE(table_.remove(1, 5));
  add(6);
  EXPECT_EQ(given_.back(), Given(1, 6));
  EXPECT_EQ(table_.count(0), 2U);
  EXPECT_EQ(table_.count(1), 1U);
  EXPECT_EQ(table_.count(2), 1U);
}

TEST_F(ConnectionTableTest, PassesOnWhatIsToBeToldOfAConnection) {
  make_ready();
  table_.add({.id = 4, .peer = "[::1]:5", .refusal = "the server has its 2 connections"});
  ASSERT_EQ(newcomers_.size(), 1U);
  EXPECT_EQ(newcomers_[0].peer, "[::1]:5");
  EXPECT_EQ(newcomers_[0].refusal, "the server has its 2 connections");
}

TEST_F(ConnectionTableTest, ConnectionsWaitInOrderUntilAFrontIsReady) {
  add(1);
  add(2);
  add(3);
  EXPECT_TRUE(given_.empty());
  EXPECT_FALSE(table_.remove(0, 1)) << "nobody has it";
  table_.on_front_ready(2);
  EXPECT_TRUE(given_.empty()) << "as many at a time as the caller can bear";
  EXPECT_TRUE(table_.give_waiting(2));
  EXPECT_EQ(given_, (std::vector<Given>{{2, 1}, {2, 2}}));
  EXPECT_FALSE(table_.give_waiting(2));
  EXPECT_EQ(given_, (std::vector<Given>{{2, 1}, {2, 2}, {2, 3}}));
  EXPECT_EQ(table_.count(2), 3U);
  table_.on_front_ready(0);
  EXPECT_EQ(given_.size(), 3U) << "none is given twice";
  add(4);
  EXPECT_EQ(given_.back(), Given(0, 4));
}

TEST_F(ConnectionTableTest, ThoseThatWaitCanBeGivenUp) {
  add(1);
  add(2);
  EXPECT_FALSE(table_.give_waiting(9)) << "there is no front";
  table_.drop_waiting({1, 2});
  EXPECT_TRUE(table_.waiting().empty());
  make_ready();
  EXPECT_TRUE(given_.empty());
}

TEST_F(ConnectionTableTest, SaysBeforehandWhatAFrontWouldLeave) {
  add(9);  // waits for a front
  make_ready();
  for (std::uint64_t id = 1; id <= 4; ++id) {
    add(id);
  }
  EXPECT_TRUE(table_.rest(0, 4, {20, 30}, kNow));
  const std::vector<ConnectionTable::Orphan> before = table_.connections_of(0);
  EXPECT_EQ(lose(0), (std::vector<std::uint64_t>{1, 4}));
  ASSERT_EQ(before.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(before[i].connection.id, orphans_[i].connection.id);
    EXPECT_EQ(before[i].connection.place, orphans_[i].connection.place);
    EXPECT_EQ(before[i].rest, orphans_[i].rest);
  }
  EXPECT_TRUE(table_.connections_of(0).empty());
}

TEST_F(ConnectionTableTest, SomeOfThoseThatWaitCanBeGivenUp) {
  for (std::uint64_t id = 1; id <= 4; ++id) {
    add(id);
  }
  table_.drop_waiting({2, 3, 9});
  EXPECT_EQ(table_.waiting(), (std::deque<std::uint64_t>{1, 4}));
  table_.on_front_ready(1);
  EXPECT_FALSE(table_.give_waiting(9));
  table_.drop_waiting({1});
  EXPECT_EQ(given_, (std::vector<Given>{{1, 1}, {1, 4}}));
  EXPECT_TRUE(table_.remove(1, 1)) << "who has a front does not wait";
}

TEST_F(ConnectionTableTest, AFrontThatIsGoneLeavesItsConnectionsAndGetsNoMore) {
  make_ready();
  for (std::uint64_t id = 1; id <= 6; ++id) {
    add(id);
  }
  EXPECT_TRUE(table_.remove(1, 2));
  EXPECT_EQ(lose(1), std::vector<std::uint64_t>{5});
  EXPECT_EQ(table_.count(1), 0U);
  EXPECT_FALSE(table_.remove(1, 5)) << "nobody has it any more";
  add(7);
  add(8);
  EXPECT_EQ(given_[6], Given(0, 7));
  EXPECT_EQ(given_[7], Given(2, 8));

  table_.on_front_ready(1);
  add(9);
  EXPECT_EQ(given_.back(), Given(1, 9)) << "it begins with none";
  EXPECT_EQ(lose(1), std::vector<std::uint64_t>{9});
  EXPECT_TRUE(lose(1).empty());
}

TEST_F(ConnectionTableTest, ConnectionsWaitAgainWhenEveryFrontIsGone) {
  make_ready();
  for (std::size_t front = 0; front < 3; ++front) {
    EXPECT_TRUE(lose(front).empty());
  }
  add(1);
  EXPECT_TRUE(given_.empty());
  table_.on_front_ready(1);
  EXPECT_FALSE(table_.give_waiting(9));
  EXPECT_EQ(given_, (std::vector<Given>{{1, 1}}));
}

TEST(SpareFront, BecomesActiveWhenOneIsMissing) {
  std::vector<std::size_t> given;
  ConnectionTable table(
      2, 1, 8, [&](std::size_t front, const FrontConnection&) { given.push_back(front); });
  table.on_front_ready(1);
  table.on_front_ready(0);
  EXPECT_TRUE(table.active(1));
  EXPECT_FALSE(table.active(0)) << "one is enough";
  table.add({.id = 1});
  table.add({.id = 2});
  EXPECT_EQ(given, (std::vector<std::size_t>{1, 1}));
  EXPECT_EQ(table.on_front_gone(1).size(), 2U);
  EXPECT_TRUE(table.active(0));
  table.add({.id = 3});
  table.on_front_ready(1);
  EXPECT_FALSE(table.active(1)) << "now it is the spare one";
  table.add({.id = 4});
  EXPECT_EQ(given, (std::vector<std::size_t>{1, 1, 0, 0}));
  EXPECT_TRUE(table.on_front_gone(1).empty()) << "the death of a spare one is nobody's";
  EXPECT_TRUE(table.active(0));
}

TEST(SpareFront, TakesTheConnectionsOfOneThatRetires) {
  std::vector<std::pair<std::size_t, std::uint64_t>> given;
  ConnectionTable table(2, 1, 8, [&](std::size_t front, const FrontConnection& connection) {
    given.emplace_back(front, connection.id);
  });
  table.on_front_ready(0);
  table.add({.id = 1, .peer = "peer"});
  table.retire(0);
  table.add({.id = 2});
  EXPECT_EQ(given.size(), 1U) << "the only one retires: the next one waits";
  table.on_front_ready(1);
  EXPECT_FALSE(table.give_waiting(9));
  EXPECT_EQ(given.back(), std::pair(std::size_t{1}, std::uint64_t{2}));
  EXPECT_FALSE(table.spare(0)) << "it is no spare one either";

  EXPECT_FALSE(table.release(1, 1, {7, 9}, kNow)) << "another front has it";
  const auto orphan = table.release(0, 1, {7, 9}, kNow);
  ASSERT_TRUE(orphan);
  EXPECT_EQ(orphan->connection.peer, "peer");
  EXPECT_EQ(orphan->rest, (os::TcpAccount{7, 9}));
  EXPECT_EQ(table.count(0), 0U);
  EXPECT_FALSE(table.release(0, 1, {7, 9}, kNow)) << "it has let go of it";
  EXPECT_TRUE(table.on_front_gone(0).empty());
  table.on_front_ready(0);
  EXPECT_TRUE(table.spare(0));
}

TEST_F(ConnectionTableTest, AnOrphanTellsWhereItWasWhenItWasLastAtRest) {
  make_ready();
  add(1);
  EXPECT_FALSE(table_.rest(1, 1, {7, 9}, kNow)) << "another front has it";
  EXPECT_TRUE(table_.rest(0, 1, {70, 900}, kNow));
  EXPECT_TRUE(table_.rest(0, 1, {140, 1800}, kNow));
  ASSERT_EQ(lose(0), std::vector<std::uint64_t>{1});
  EXPECT_EQ(orphans_[0].rest, (os::TcpAccount{140, 1800}));

  hand_on();
  ASSERT_EQ(given_.back(), Given(1, 1));
  ASSERT_EQ(lose(1), std::vector<std::uint64_t>{1});
  EXPECT_EQ(orphans_[0].rest, (os::TcpAccount{140, 1800})) << "nothing was read or written since";

  hand_on();
  ASSERT_EQ(given_.back(), Given(2, 1));
  EXPECT_EQ(newcomers_.back().account, (os::TcpAccount{140, 1800}));
  EXPECT_TRUE(table_.rest(2, 1, {150, 1820}, kNow));
  ASSERT_EQ(lose(2), std::vector<std::uint64_t>{1});
  EXPECT_EQ(orphans_[0].rest, (os::TcpAccount{150, 1820}));
}

TEST_F(ConnectionTableTest, AConnectionWaitsSinceItsLastRestWhateverBecomesOfItsFronts) {
  make_ready();
  table_.add({.id = 1, .waits_since = kNow});
  ASSERT_EQ(lose(0), std::vector<std::uint64_t>{1});
  hand_on();
  EXPECT_EQ(newcomers_.back().waits_since, kNow) << "for its first request";
  EXPECT_TRUE(table_.rest(1, 1, {70, 900}, kLater));
  ASSERT_EQ(lose(1), std::vector<std::uint64_t>{1});
  hand_on();
  EXPECT_EQ(newcomers_.back().waits_since, kLater);
  const auto orphan = table_.release(2, 1, {70, 900}, kLater + std::chrono::seconds(9));
  ASSERT_TRUE(orphan);
  EXPECT_EQ(orphan->connection.waits_since, kLater) << "nothing was read or written since";
}

TEST_F(ConnectionTableTest, AConnectionThatResumesIsNotAtRestBeforeItsFrontSaysSo) {
  make_ready();
  FrontConnection connection{.id = 1, .account = {70, 900}, .resumes = true, .left_at = 5};
  connection.journal = *FrontJournal::create(FrontJournal::bytes_of(8, 0), 8);
  connection.failure = "it has ended two";
  connection.strikes = 2;
  connection.is_suspect = true;
  table_.add(connection);
  ASSERT_EQ(given_.back(), Given(0, 1));
  EXPECT_EQ(newcomers_.back().journal, connection.journal);
  EXPECT_EQ(newcomers_.back().left_at, 5U);
  EXPECT_EQ(newcomers_.back().failure, "it has ended two");
  ASSERT_EQ(lose(0), std::vector<std::uint64_t>{1});
  EXPECT_FALSE(orphans_[0].rest);
  EXPECT_EQ(orphans_[0].connection.journal, connection.journal) << "it may be needed again";
  EXPECT_EQ(orphans_[0].connection.account, connection.account);
  EXPECT_EQ(orphans_[0].connection.left_at, 5U);
  EXPECT_EQ(orphans_[0].connection.place, 0U) << "in the journal of the second";

  table_.add(orphans_[0].connection);
  EXPECT_TRUE(table_.rest(1, 1, {80, 910}, kNow));
  ASSERT_EQ(lose(1), std::vector<std::uint64_t>{1});
  EXPECT_EQ(orphans_[0].rest, (os::TcpAccount{80, 910}));
  EXPECT_EQ(orphans_[0].connection.journal, nullptr);
  EXPECT_FALSE(orphans_[0].connection.resumes);
  EXPECT_EQ(orphans_[0].connection.failure, "");
  EXPECT_EQ(orphans_[0].connection.strikes, 0U);
  EXPECT_FALSE(orphans_[0].connection.is_suspect);
}

TEST(FrontOfItsOwn, GetsOnlyWhatIsForItAndGivesItBackAtRest) {
  std::vector<std::pair<std::size_t, std::uint64_t>> given;
  ConnectionTable table(3, 1, 8, [&](std::size_t front, const FrontConnection& connection) {
    given.emplace_back(front, connection.id);
  });
  table.add({.id = 1});
  table.add_to(2, {.id = 2, .account = {70, 900}, .resumes = true});
  EXPECT_EQ(given, (std::vector<std::pair<std::size_t, std::uint64_t>>{{2, 2}}))
      << "the other one waits for another front";
  EXPECT_EQ(table.count(2), 1U);
  EXPECT_FALSE(table.active(2) || table.spare(2));

  const auto orphan = table.release(2, 2, {80, 990}, kNow);
  ASSERT_TRUE(orphan);
  EXPECT_EQ(orphan->rest, (os::TcpAccount{80, 990}));
  EXPECT_EQ(table.count(2), 0U);
  table.add_to(2, {.id = 3, .account = {5, 6}, .resumes = true});
  const auto left = table.on_front_gone(2);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].connection.place, 0U);
  EXPECT_FALSE(left[0].rest);
}

TEST_F(ConnectionTableTest, AConnectionThatWaitsKeepsWhatItResumesFrom) {
  FrontConnection connection{.id = 1, .resumes = true};
  connection.journal = *FrontJournal::create(FrontJournal::bytes_of(8, 0), 8);
  const std::weak_ptr<const FrontJournal> journal = connection.journal;
  table_.add(std::move(connection));
  table_.on_front_ready(1);
  EXPECT_FALSE(table_.give_waiting(9));
  ASSERT_EQ(given_.back(), Given(1, 1));
  EXPECT_EQ(newcomers_.back().journal, journal.lock());
  newcomers_.clear();
  EXPECT_TRUE(table_.remove(1, 1));
  EXPECT_TRUE(journal.expired());
}

TEST(Places, AreTheLowestFreeOnesOfEachFront) {
  std::vector<std::uint32_t> places;
  ConnectionTable table(2, 2, 2, [&](std::size_t, const FrontConnection& connection) {
    places.push_back(connection.place);
  });
  constexpr std::uint32_t kNone = wire::kNoJournalPlace;
  for (std::uint64_t id = 1; id <= 2; ++id) {
    table.add({.id = id});
  }
  table.on_front_ready(0);
  EXPECT_FALSE(table.give_waiting(9));
  table.add({.id = 3});
  table.add({.id = 4});
  EXPECT_EQ(places, (std::vector<std::uint32_t>{0, 1, kNone, kNone}));
  EXPECT_TRUE(table.remove(0, 2));
  EXPECT_TRUE(table.remove(0, 3));
  EXPECT_TRUE(table.release(0, 1, {0, 0}, kNow));
  places.clear();
  for (std::uint64_t id = 5; id <= 7; ++id) {
    table.add({.id = id});
  }
  EXPECT_EQ(places, (std::vector<std::uint32_t>{0, 1, kNone}));
  EXPECT_EQ(table.on_front_gone(0).size(), 4U);
  table.on_front_ready(0);
  table.on_front_ready(1);
  places.clear();
  for (std::uint64_t id = 8; id <= 10; ++id) {
    table.add({.id = id});
  }
  EXPECT_EQ(places, (std::vector<std::uint32_t>{0, 0, 1})) << "a new life has all of them";
}

TEST_F(ConnectionTableTest, TheJournalOfADeadFrontGoesWhenTheNextOneKeepsEverything) {
  make_ready();
  const std::shared_ptr<const FrontJournal> journal =
      *FrontJournal::create(FrontJournal::bytes_of(8, 0), 8);
  for (std::uint64_t id = 1; id <= 6; ++id) {
    table_.add({.id = id, .resumes = true, .journal = journal});
  }
  newcomers_.clear();
  std::vector<std::uint64_t> asked;
  const auto holds = [&asked](std::size_t, const FrontConnection& connection) {
    asked.push_back(connection.id);
    return connection.id != 2;
  };
  table_.drop_journals(4, holds);
  EXPECT_EQ(asked, (std::vector<std::uint64_t>{1, 2, 3, 4}));
  EXPECT_EQ(journal.use_count(), 4);
  table_.drop_journals(100, holds);
  EXPECT_EQ(asked, (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 2}));
  EXPECT_EQ(journal.use_count(), 2);
  EXPECT_TRUE(table_.remove(0, 2) || table_.remove(1, 2) || table_.remove(2, 2));
  EXPECT_EQ(journal.use_count(), 1);
}

TEST_F(ConnectionTableTest, OnlyTheFrontThatHasAConnectionEndsIt) {
  make_ready();
  add(1);
  EXPECT_FALSE(table_.remove(1, 1));
  EXPECT_FALSE(table_.remove(0, 2));
  EXPECT_TRUE(table_.has(0, 1));
  EXPECT_FALSE(table_.has(1, 1));
  EXPECT_FALSE(table_.has(0, 2));
  EXPECT_EQ(table_.count(0), 1U);
  EXPECT_EQ(table_.count(1), 0U);
  EXPECT_TRUE(table_.remove(0, 1));
  EXPECT_FALSE(table_.remove(0, 1)) << "it has ended";
  EXPECT_FALSE(table_.has(0, 1));
  EXPECT_EQ(table_.count(0), 0U);
}

TEST_F(ConnectionTableTest, AConnectionMayEndWhileItIsGiven) {
  ends_at_once_ = true;
  add(1);
  add(2);
  table_.on_front_ready(0);
  EXPECT_FALSE(table_.give_waiting(9));
  add(3);
  EXPECT_EQ(given_, (std::vector<Given>{{0, 1}, {0, 2}, {0, 3}}));
  EXPECT_EQ(table_.count(0), 0U);
}

}  // namespace
}  // namespace phalanx::keeper
