// SPDX-License-Identifier: Apache-2.0
#include "phalanx/os/memory_placement.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <climits>

#include <gtest/gtest.h>

namespace phalanx::os {
namespace {

TEST(NodeStripes, AreHugePagesInTurns) {
  EXPECT_EQ(node_stripes(3 * kHugePageBytes + 5, {1, 4}),
            (std::vector<NodeStripe>{{0, kHugePageBytes, 1},
                                     {kHugePageBytes, kHugePageBytes, 4},
                                     {2 * kHugePageBytes, kHugePageBytes, 1},
                                     {3 * kHugePageBytes, 5, 4}}));
}

TEST(NodeStripes, AreOneForOneNode) {
  EXPECT_EQ(node_stripes(std::size_t{1} << 40, {3}),
            (std::vector<NodeStripe>{{0, std::size_t{1} << 40, 3}}));
  EXPECT_EQ(node_stripes(100, {3}), (std::vector<NodeStripe>{{0, 100, 3}}));
}

TEST(NodeStripes, AreNoMoreThanMappingsAllow) {
  const std::size_t bytes = kMaxStripes * kHugePageBytes + 1;
  const std::vector<NodeStripe> stripes = node_stripes(bytes, {0, 1});
  EXPECT_LE(stripes.size(), kMaxStripes);
  std::size_t end = 0;
  for (const NodeStripe& stripe : stripes) {
    EXPECT_EQ(stripe.offset, end);
    EXPECT_EQ(stripe.offset % kHugePageBytes, 0U);
    end += stripe.bytes;
  }
  EXPECT_EQ(end, bytes);
}

// The node that the kernel was told for this page, -1 for none.
int told_node(const std::byte* address) {
  int mode = 0;
  std::array<unsigned long, 1024 / (sizeof(unsigned long) * CHAR_BIT)> nodes = {};
  EXPECT_EQ(
      ::syscall(SYS_get_mempolicy, &mode, nodes.data(), std::size_t{1024}, address, MPOL_F_ADDR),
      0);
  for (std::size_t node = 0; mode == MPOL_PREFERRED && node < 1024; ++node) {
    if ((nodes[node / 64] >> (node % 64) & 1U) != 0) {
      return static_cast<int>(node);
    }
  }
  return -1;
}

// Containers may forbid it.
bool kernel_places_memory() {
  const Memfd memory = *Memfd::reserve("test", kHugePageBytes);
  const Mapping mapping = *memory.map(Access::kReadOnly);
  const unsigned long first_node = 1;
  return ::syscall(SYS_mbind,
                   mapping.data(),
                   mapping.size(),
                   MPOL_PREFERRED,
                   &first_node,
                   sizeof first_node * CHAR_BIT,
                   0) == 0;
}

TEST(PlaceOnNodes, HoldsForEveryMappingOfTheMemory) {
  const Memfd memory = *Memfd::reserve("test", 2 * kHugePageBytes + 100);
  const Mapping before = *memory.map(Access::kReadOnly);
  EXPECT_EQ(told_node(before.data()), -1);
  if (!kernel_places_memory()) {
    GTEST_SKIP() << "this kernel does not let memory be placed";
  }
  const NodeList nodes = {0, 1};
  ASSERT_TRUE(place_on_nodes(memory, nodes));
  const Mapping after = *memory.map(Access::kReadWrite);
  for (const Mapping* mapping : {&before, &after}) {
    EXPECT_EQ(told_node(mapping->data()), 0);
    EXPECT_GE(told_node(mapping->data() + kHugePageBytes), 0);
    EXPECT_EQ(told_node(mapping->data() + 2 * kHugePageBytes), 0);
  }
  EXPECT_TRUE(memory.back(0, memory.size())) << "a policy is not in the way of memory";
}

TEST(PlaceOnNodes, LeavesOutNodesThatAreNotThere) {
  const Memfd memory = *Memfd::reserve("test", 100);
  EXPECT_TRUE(place_on_nodes(memory, {}));
  EXPECT_FALSE(place_on_nodes(memory, {1023}));
  EXPECT_FALSE(place_on_nodes(memory, {4000000000}));
}

}  // namespace
}  // namespace phalanx::os
