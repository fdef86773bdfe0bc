// SPDX-License-Identifier: Apache-2.0
#include "phalanx/base/bisection.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

using Ids = std::vector<int>;

Ids members(const Bisection<int>& bisection) {
  return {bisection.testing().begin(), bisection.testing().end()};
}

// Runs whatever is to be tested; `deadly` says who kills. Answers who was condemned.
struct Trial {
  std::set<int> deadly;
  Bisection<int> bisection;
  int deaths = 0;
  Ids condemned;

  void die(const Ids& together) {
    ++deaths;
    if (const auto culprit = bisection.blame(together)) {
      condemned.push_back(*culprit);
    }
  }
  void run() {
    while (bisection.active()) {
      const Ids group = members(bisection);
      if (std::any_of(group.begin(), group.end(), [&](int id) { return deadly.contains(id); })) {
        die(group);
      } else {
        for (const int id : group) {
          bisection.progressed(id);
        }
      }
    }
  }
};

TEST(Bisection, FindsEachCulpritWhereverItStands) {
  for (int culprit = 0; culprit < 8; ++culprit) {
    Trial trial{{culprit}, {}, 0, {}};
    trial.die({0, 1, 2, 3, 4, 5, 6, 7});
    trial.run();
    EXPECT_EQ(trial.condemned, Ids{culprit});
    EXPECT_LE(trial.deaths, 5) << "halving, and twice alone";
    EXPECT_FALSE(trial.bisection.take_unexplained());
    EXPECT_FALSE(trial.bisection.knows_any());
  }
}

TEST(Bisection, FindsTwoCulpritsAmongMany) {
  Trial trial{{1, 6}, {}, 0, {}};
  trial.die({0, 1, 2, 3, 4, 5, 6, 7});
  trial.run();
  EXPECT_EQ(trial.condemned, (Ids{1, 6}));
  EXPECT_FALSE(trial.bisection.take_unexplained());
}

TEST(Bisection, TestsOneHalfAtATime) {
  Bisection<int> bisection;
  EXPECT_FALSE(bisection.active());
  EXPECT_EQ(bisection.blame({1, 2, 3, 4}), std::nullopt);
  EXPECT_EQ(members(bisection), (Ids{1, 2}));
  bisection.progressed(2);
  EXPECT_EQ(members(bisection), Ids{1}) << "who got further waits for the others";
  bisection.progressed(4);
  bisection.progressed(1);
  EXPECT_EQ(members(bisection), Ids{3}) << "the other half is suspect as a whole no longer";
  bisection.progressed(3);
  EXPECT_EQ(members(bisection), Ids{4}) << "it was not under test when it was said to progress";
}

TEST(Bisection, SaysThatNobodyWasToBlame) {
  Trial trial{{}, {}, 0, {}};
  trial.die({1, 2, 3, 4});
  trial.run();
  EXPECT_TRUE(trial.condemned.empty());
  EXPECT_TRUE(trial.bisection.take_unexplained());
  EXPECT_FALSE(trial.bisection.take_unexplained()) << "once";
}

TEST(Bisection, ForgivesSharedDeathsAndNoneAlone) {
  Trial trial{{}, {}, 0, {}};
  for (int i = 0; i < 10; ++i) {
    trial.die({1, 2});
    trial.run();
  }
  EXPECT_TRUE(trial.condemned.empty());
  trial.die({1});
  trial.run();  // it gets further
  EXPECT_TRUE(trial.condemned.empty());
  EXPECT_TRUE(trial.bisection.knows_any());
  trial.die({1});
  EXPECT_EQ(trial.condemned, Ids{1});
}

TEST(Bisection, EndsWhenTheSuspectsHaveLeft) {
  Bisection<int> bisection;
  EXPECT_EQ(bisection.blame({1, 2, 3}), std::nullopt);
  bisection.keep([](int) { return false; });
  EXPECT_FALSE(bisection.knows_any());
  EXPECT_FALSE(bisection.take_unexplained()) << "the culprit may be gone";
  EXPECT_EQ(bisection.blame({5}), std::nullopt);
  bisection.keep([](int) { return false; });
  EXPECT_EQ(bisection.blame({5}), std::nullopt) << "a new one of that name";
}

// Beside somebody who is gone nobody has killed alone.
TEST(Bisection, CountsNoDeathAsAloneWhereOthersRanThatAreGone) {
  Bisection<int> bisection;
  EXPECT_EQ(bisection.blame({5}, true), std::nullopt);
  EXPECT_EQ(bisection.testing(), std::set<int>{5});
  EXPECT_EQ(bisection.blame({5}), std::nullopt) << "the first time that it was alone";
  EXPECT_EQ(bisection.blame({5}), 5);
}

}  // namespace
}  // namespace phalanx
