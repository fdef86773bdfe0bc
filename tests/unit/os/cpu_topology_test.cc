// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/cpu_topology.h"

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace phalanx::os {
namespace {

// CPUs with cores and nodes of their own, but for what `change` says.
CpuTopology places(
    std::uint32_t count, void (*change)(CpuPlace&) = [](CpuPlace&) {}) {
  CpuTopology all;
  for (std::uint32_t cpu = 0; cpu < count; ++cpu) {
    CpuPlace place{cpu, cpu, 0};
    change(place);
    all.push_back(place);
  }
  return all;
}

TEST(DefaultCoreSets, GivesContiguousAndNearlyEqualRuns) {
  EXPECT_EQ(default_core_sets(2, places(4)), (std::vector<CpuList>{{0, 1}, {2, 3}}));
  EXPECT_EQ(default_core_sets(1, {{3, 3, 0}}), (std::vector<CpuList>{{3}}));
  const CpuTopology some = {{0, 0, 0}, {1, 1, 0}, {4, 4, 0}, {5, 5, 0}, {6, 6, 0}};
  EXPECT_EQ(default_core_sets(3, some), (std::vector<CpuList>{{0}, {1, 4}, {5, 6}}));
}

TEST(DefaultCoreSets, TakesOneCpuOfEachCore) {
  const auto near = [](CpuPlace& place) { place.core = place.cpu / 2 * 2; };
  EXPECT_EQ(default_core_sets(2, places(8, near)), (std::vector<CpuList>{{0, 2}, {4, 6}}));
  const auto far = [](CpuPlace& place) { place.core = place.cpu % 4; };
  EXPECT_EQ(default_core_sets(2, places(8, far)), (std::vector<CpuList>{{0, 1}, {2, 3}}));
  // A cpuset may hold the second one alone.
  EXPECT_EQ(default_core_sets(1, {{5, 1, 0}}), (std::vector<CpuList>{{5}}));
}

TEST(DefaultCoreSets, KeepsRanksWithinNodesThatAreEven) {
  const auto turns = [](CpuPlace& place) { place.node = place.cpu % 2; };
  EXPECT_EQ(default_core_sets(2, places(8, turns)),
            (std::vector<CpuList>{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(default_core_sets(4, places(8, turns)),
            (std::vector<CpuList>{{0, 2}, {4, 6}, {1, 3}, {5, 7}}));
  // Three ranks have as much as they can, and one of all nodes has all.
  EXPECT_EQ(default_core_sets(3, places(8, turns)),
            (std::vector<CpuList>{{0, 2}, {1, 4, 6}, {3, 5, 7}}));
  EXPECT_EQ(default_core_sets(1, places(4, turns)), (std::vector<CpuList>{{0, 1, 2, 3}}));
  const auto uneven = [](CpuPlace& place) { place.node = place.cpu < 6 ? 0 : 1; };
  EXPECT_EQ(default_core_sets(2, places(8, uneven)),
            (std::vector<CpuList>{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

TEST(DefaultCoreSets, PinsNobodyWhereThereAreFewerCoresThanRanks) {
  EXPECT_EQ(default_core_sets(4, places(2)), std::vector<CpuList>(4));
  const auto shared = [](CpuPlace& place) { place.core = place.cpu / 2 * 2; };
  EXPECT_EQ(default_core_sets(3, places(4, shared)), std::vector<CpuList>(3));
}

TEST(ReadCpuTopology, FindsCoresAndNodes) {
  const test::TempDir sysfs;
  sysfs.write("node/online", "0,2\n");
  sysfs.write("node/node0/cpulist", "0-1,8-9\n");
  sysfs.write("node/node2/cpulist", "2-3,10-11\n");
  for (const std::uint32_t cpu : {0U, 1U, 2U, 3U, 8U, 9U, 10U, 11U}) {
    const std::string first = std::to_string(cpu % 8);
    const std::string second = std::to_string(cpu % 8 + 8);
    sysfs.write("cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
                first + "," + second + "\n");
  }
  EXPECT_EQ(read_cpu_topology({1, 2, 9, 10}, sysfs.path()),
            (CpuTopology{{1, 1, 0}, {2, 2, 2}, {9, 1, 0}, {10, 2, 2}}));
}

TEST(NodesNear, NamesThoseOfTheCpusWhereThereIsAChoice) {
  const test::TempDir sysfs;
  EXPECT_EQ(nodes_near({0, 1}, sysfs.path()), NodeList());
  sysfs.write("node/online", "0\n");
  sysfs.write("node/node0/cpulist", "0-1\n");
  EXPECT_EQ(nodes_near({0, 1}, sysfs.path()), NodeList()) << "one node is no choice";
  sysfs.write("node/online", "0,2-3\n");
  sysfs.write("node/node2/cpulist", "2-3\n");
  sysfs.write("node/node3/cpulist", "\n");  // memory alone
  EXPECT_EQ(nodes_near({3, 2}, sysfs.path()), NodeList({2}));
  EXPECT_EQ(nodes_near({3, 0}, sysfs.path()), NodeList({0, 2}));
  EXPECT_EQ(nodes_near({}, sysfs.path()), NodeList());
  EXPECT_EQ(nodes_near({7}, sysfs.path()), NodeList());
}

TEST(ReadCpuTopology, TakesWhatIsNotToldForACoreOfOneNode) {
  const test::TempDir sysfs;
  EXPECT_EQ(read_cpu_topology({4, 7}, sysfs.path()), (CpuTopology{{4, 4, 0}, {7, 7, 0}}));
  sysfs.write("node/online", "0-\n");
  sysfs.write("cpu/cpu4/topology/thread_siblings_list", "four\n");
  sysfs.write("cpu/cpu7/topology/thread_siblings_list", "");
  EXPECT_EQ(read_cpu_topology({4, 7}, sysfs.path()), (CpuTopology{{4, 4, 0}, {7, 7, 0}}));
}

TEST(ReadCpuTopology, KnowsThisMachine) {
  const CpuList allowed = allowed_cpus();
  const CpuTopology here = read_cpu_topology(allowed);
  ASSERT_EQ(here.size(), allowed.size());
  for (std::size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(here[i].cpu, allowed[i]);
    EXPECT_LE(here[i].core, here[i].cpu);
  }
}

}  // namespace
}  // namespace phalanx::os
