// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/cpu_set.h"

#include <thread>

#include <gtest/gtest.h>

namespace phalanx::os {
namespace {

TEST(ParseCoreSets, ReadsRangesAndLists) {
  const auto sets = parse_core_sets("0-1|2,5-7|9");
  ASSERT_TRUE(sets);
  EXPECT_EQ(*sets, (std::vector<CpuList>{{0, 1}, {2, 5, 6, 7}, {9}}));
}

TEST(ParseCoreSets, SortsWithinASet) {
  EXPECT_EQ(*parse_core_sets("7,1,3-4"), (std::vector<CpuList>{{1, 3, 4, 7}}));
}

TEST(ParseCoreSets, RefusesWhatIsNoCoreSet) {
  for (const char* text : {"",
                           "|",
                           "0|",
                           "a",
                           "1-",
                           "-1",
                           "3-1",
                           "0,,1",
                           "0 1",
                           "4096",
                           "0--1",
                           "99999999999",
                           "0-1|x",
                           "1.5"}) {
    const auto sets = parse_core_sets(text);
    ASSERT_FALSE(sets) << text;
    EXPECT_EQ(sets.error().code(), Code::kInvalidArgument);
  }
}

TEST(ParseCoreSets, RefusesACpuTwiceInOneSet) {
  const auto sets = parse_core_sets("0-2,1");
  ASSERT_FALSE(sets);
  EXPECT_NE(sets.error().message().find("0-2,1"), std::string::npos);
}

TEST(FormatCoreSets, GivesBackWhatWasRead) {
  for (const char* text : {"0-1|2-3", "0,2,4-6|8", "5"}) {
    EXPECT_EQ(format_core_sets(*parse_core_sets(text)), text);
  }
}

TEST(CheckCoreSets, WantsOneSetPerRank) {
  const CpuList allowed{0, 1, 2, 3};
  EXPECT_TRUE(check_core_sets({{0, 1}, {2, 3}}, 2, allowed));
  const Status status = check_core_sets({{0}, {1}}, 4, allowed);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message().find("2 core sets (0|1) for 4 ranks"), std::string::npos);
}

TEST(CheckCoreSets, RefusesSharedAndForeignCpus) {
  const CpuList allowed{0, 1, 2, 3};
  EXPECT_NE(check_core_sets({{0, 1}, {1, 2}}, 2, allowed).error().message().find("CPU 1"),
            std::string::npos);
  EXPECT_NE(check_core_sets({{0}, {9}}, 2, allowed).error().message().find("CPU 9"),
            std::string::npos);
  EXPECT_FALSE(check_core_sets({{0}, {}}, 2, allowed));
}

TEST(PinCurrentThread, RestrictsThisThreadOnly) {
  const CpuList before = allowed_cpus();
  ASSERT_FALSE(before.empty());
  CpuList inside;
  std::thread([&] {
    ASSERT_TRUE(pin_current_thread({before.back()}));
    inside = allowed_cpus();
  }).join();
  EXPECT_EQ(inside, CpuList{before.back()});
  EXPECT_EQ(allowed_cpus(), before);
}

TEST(PinCurrentThread, RefusesCpusThatAreNotThere) {
  EXPECT_FALSE(pin_current_thread({4095}));
  EXPECT_FALSE(pin_current_thread({5000}));
  EXPECT_FALSE(pin_current_thread({}));
}

}  // namespace
}  // namespace phalanx::os
