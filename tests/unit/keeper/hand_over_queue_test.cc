// SPDX-License-Identifier: Apache-2.0
#include "phalanx/keeper/hand_over_queue.h"

#include <cstdint>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/manual_clock.h"

namespace phalanx::keeper {
namespace {

constexpr auto kMoment = std::chrono::milliseconds(1);

// One front is active and another one spare. A connection goes to the active one, or waits for one.
class HandOverQueueTest : public testing::Test {
 protected:
  using Ids = std::vector<std::uint64_t>;

  HandOverQueueTest() {
    table_.on_front_ready(0);
    table_.on_front_ready(1);
  }

  // The ids from `first` to `last`.
  static Ids ids(std::uint64_t first, std::uint64_t last) {
    Ids all(last - first + 1);
    std::iota(all.begin(), all.end(), first);
    return all;
  }

  void connect(const Ids& connections) {
    for (const std::uint64_t id : connections) {
      table_.add({.id = id});
    }
    given_.clear();
  }

  void work(const Ids& connections) { open_.insert(connections.begin(), connections.end()); }

  // What these have in work has been taken over: their clients get the next byte as it comes.
  void catch_up(const Ids& connections) {
    for (const std::uint64_t id : connections) {
      missing_.erase(id);
    }
  }

  void die(std::size_t front) {
    std::vector<ConnectionTable::Orphan> orphans = table_.on_front_gone(front);
    for (const ConnectionTable::Orphan& orphan : orphans) {
      if (open_.contains(orphan.connection.id)) {
        missing_.insert(orphan.connection.id);
      }
    }
    queue_.add(front, {}, std::move(orphans));
    queue_.go_on();
  }

  // The next turn of the loop, if one is to follow.
  bool turn() {
    clock_.advance(HandOverQueue::kPause);
    const bool follows = std::exchange(asked_, false);
    if (follows) {
      queue_.turn();
    }
    return follows;
  }

  void turn_all() {
    for (int i = 0; i < 1000 && turn(); ++i) {
    }
    EXPECT_FALSE(asked_);
  }

  [[nodiscard]] Ids given() { return std::exchange(given_, {}); }

  test::ManualClock clock_;
  std::set<std::uint64_t> open_;     // a request of theirs is in work
  std::set<std::uint64_t> missing_;  // … and is to be told what it missed
  Ids given_;                        // to a front
  bool asked_ = false;
  ConnectionTable table_{2, 1, 100, [this](std::size_t, const FrontConnection& connection) {
                           given_.push_back(connection.id);
                         }};
  HandOverQueue queue_{clock_,
                       {[this](std::size_t most) { return table_.give_waiting(most); },
                        [this](std::uint64_t id) { return open_.contains(id); },
                        [this] { return missing_.size(); },
                        [this](ConnectionTable::Orphan orphan, const Verdict&) {
                          table_.add(std::move(orphan.connection));
                          return Fate::kResumes;
                        },
                        [this](Duration) {
                          EXPECT_FALSE(asked_) << "one turn at a time";
                          asked_ = true;
                        }}};
};

TEST_F(HandOverQueueTest, ThoseWhoseClientsWaitGoFirst) {
  connect(ids(1, 20));
  work({4, 9, 17});
  die(0);
  EXPECT_EQ(given(), (Ids{4, 9, 17})) << "the others would take the time of the next front";
  EXPECT_FALSE(queue_.empty());
  EXPECT_TRUE(turn());
  catch_up({4, 9});
  EXPECT_TRUE(turn());
  EXPECT_EQ(given(), Ids{});
  catch_up({17});
  EXPECT_TRUE(turn());
  EXPECT_EQ(given(), (Ids{1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 18, 19}));
  EXPECT_TRUE(turn());
  EXPECT_EQ(given(), Ids{20});
  EXPECT_TRUE(queue_.empty());
  EXPECT_FALSE(turn());
}

TEST_F(HandOverQueueTest, EightAtATimeGoOn) {
  connect(ids(1, 20));
  work(ids(1, 20));
  die(0);
  EXPECT_EQ(given(), ids(1, 8));
  EXPECT_TRUE(turn());
  EXPECT_EQ(given(), Ids{});
  catch_up({1, 5, 8});
  EXPECT_TRUE(turn());
  EXPECT_EQ(given(), ids(9, 11));
  catch_up(ids(1, 11));
  EXPECT_TRUE(turn());
  EXPECT_EQ(given(), ids(12, 19));
  catch_up({12});
  EXPECT_TRUE(turn());
  EXPECT_EQ(given(), Ids{20});
  EXPECT_FALSE(turn());
}

TEST_F(HandOverQueueTest, NobodyIsWaitedForLongerThanAMoment) {
  connect(ids(1, 40));
  work(ids(1, 10));
  die(0);
  clock_.advance(HandOverQueue::kUrgentTime - HandOverQueue::kPause - kMoment);
  EXPECT_TRUE(turn());
  EXPECT_EQ(given(), ids(1, 8));
  EXPECT_TRUE(turn());
  EXPECT_EQ(given(), ids(9, 24)) << "sixteen in a turn all the same";
  EXPECT_TRUE(turn());
  EXPECT_EQ(given(), ids(25, 40));
  EXPECT_FALSE(turn());
}

TEST_F(HandOverQueueTest, ATurnHandsOnSixteen) {
  connect(ids(1, 40));
  die(0);
  EXPECT_EQ(given(), ids(1, 16));
  EXPECT_TRUE(turn());
  EXPECT_EQ(given(), ids(17, 32));
  EXPECT_TRUE(turn());
  EXPECT_EQ(given(), ids(33, 40));
  EXPECT_FALSE(turn());
}

TEST_F(HandOverQueueTest, ATurnAsksForAFrontOnceThoughItIsToldTwice) {
  connect(ids(1, 40));
  die(0);
  EXPECT_EQ(given(), ids(1, 16));
  queue_.go_on();
  EXPECT_EQ(given(), Ids{}) << "the next turn is to follow anyway";
  EXPECT_TRUE(turn());
  EXPECT_EQ(given(), ids(17, 32));
}

TEST_F(HandOverQueueTest, NothingIsForgottenWhenTheNextFrontDiesInTheMiddle) {
  connect(ids(1, 20));
  work(ids(1, 12));
  die(0);
  EXPECT_EQ(given(), ids(1, 8));
  table_.on_front_ready(0);
  die(1);
  EXPECT_EQ(given(), Ids{}) << "eight of the twelve have begun";
  catch_up(ids(1, 8));
  EXPECT_TRUE(turn());
  EXPECT_EQ(given(), ids(9, 12)) << "those that it never got";
  catch_up(ids(9, 12));
  turn_all();
  const Ids rest = given();
  ASSERT_EQ(rest.size(), 16U);
  EXPECT_EQ(Ids(rest.begin(), rest.begin() + 8), ids(13, 20)) << "by the front that they had";
  EXPECT_EQ(Ids(rest.begin() + 8, rest.end()), ids(1, 8));
  EXPECT_EQ(table_.count(0), 20U);
}

TEST_F(HandOverQueueTest, WithoutAFrontTheyWaitForOne) {
  connect(ids(1, 20));
  work(ids(1, 12));
  die(0);
  EXPECT_EQ(given(), ids(1, 8));
  die(1);
  clock_.advance(HandOverQueue::kUrgentTime);
  turn_all();
  EXPECT_EQ(given(), Ids{});
  EXPECT_EQ(table_.waiting().size(), 20U);
  table_.on_front_ready(0);
  queue_.go_on();
  EXPECT_EQ(given().size(), 16U);
  EXPECT_TRUE(turn());
  EXPECT_EQ(given().size(), 4U);
  EXPECT_FALSE(turn());
  EXPECT_EQ(table_.count(0), 20U);
}

}  // namespace
}  // namespace phalanx::keeper
