// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstring>
#include <random>

#include "group.h"

namespace phalanx::collective {
namespace {

using Row = std::vector<float>;

// Values of very different size, so that another order of additions gives other bits.
std::vector<Row> random_leaves(std::uint32_t leaves, std::size_t elements, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> mantissa(-1.0F, 1.0F);
  std::uniform_int_distribution<int> exponent(-12, 12);
  std::vector<Row> rows(leaves, Row(elements));
  for (Row& row : rows) {
    for (float& value : row) {
      value = std::ldexp(mantissa(random), exponent(random));
    }
  }
  return rows;
}

Row add(const Row& left, const Row& right) {
  Row sum(left.size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] = left[i] + right[i];
  }
  return sum;
}

// The definition, as a recursion over leaves.
Row tree_sum(const std::vector<Row>& leaves, std::uint32_t first, std::uint32_t count) {
  if (count == 1) {
    return leaves[first];
  }
  const std::uint32_t left = left_leaves(count);
  return add(tree_sum(leaves, first, left), tree_sum(leaves, first + left, count - left));
}

bool same_bits(const Row& a, const Row& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// What rank `rank` obtains when every rank sums its own nodes and the group the rest.
Status reduce(Communicator& communicator, const std::vector<Row>& leaves, Row& out) {
  PHALANX_TRY(const TreePlan plan,
              TreePlan::make(static_cast<std::uint32_t>(leaves.size()), communicator.world()));
  std::vector<Row> nodes;
  for (const LeafRange& node : plan.nodes_of(communicator.rank())) {
    nodes.push_back(tree_sum(leaves, node.first, node.count));
  }
  std::vector<const float*> pointers;
  for (const Row& node : nodes) {
    pointers.push_back(node.data());
  }
  return communicator.reduce_tree(plan, pointers, out);
}

TEST(ReduceTree, GivesTheSameBitsForEveryWorldSize) {
  for (const std::uint32_t leaves : {1U, 2U, 3U, 4U, 5U, 8U, 16U, 23U}) {
    const std::vector<Row> rows = random_leaves(leaves, 300, leaves);
    const Row expected = tree_sum(rows, 0, leaves);
    for (const std::uint32_t world : {1U, 2U, 3U, 4U, 5U, 7U}) {
      Group group(world);
      std::vector<Row> out(world, Row(300));
      group.run_ok([&](Communicator& communicator) {
        return reduce(communicator, rows, out[communicator.rank()]);
      });
      for (const Row& row : out) {
        EXPECT_TRUE(same_bits(row, expected)) << leaves << " leaves over " << world << " ranks";
      }
    }
  }
}

TEST(ReduceTree, IsNotTheSumFromLeftToRight) {
  const std::vector<Row> rows = random_leaves(16, 300, 1);
  Row plain = rows[0];
  for (std::size_t leaf = 1; leaf < rows.size(); ++leaf) {
    plain = add(plain, rows[leaf]);
  }
  EXPECT_FALSE(same_bits(plain, tree_sum(rows, 0, 16)));
}

TEST(ReduceTree, SendsLargePayloadsThroughInChunks) {
  const std::size_t elements = 10'007;  // ten slots of 4 KB and a remainder
  const std::vector<Row> rows = random_leaves(16, elements, 3);
  const Row expected = tree_sum(rows, 0, 16);
  for (const std::uint32_t world : {2U, 3U}) {
    Group group(world);
    std::vector<Row> out(world, Row(elements));
    std::vector<std::uint64_t> meetings(world);
    group.run_ok([&](Communicator& communicator) {
      const Status status = reduce(communicator, rows, out[communicator.rank()]);
      meetings[communicator.rank()] = communicator.counters().meetings;
      return status;
    });
    for (const Row& row : out) {
      EXPECT_TRUE(same_bits(row, expected));
    }
    EXPECT_GE(meetings[0], 10U);
  }
}

TEST(ReduceTree, MayWriteOverItsInput) {
  const std::vector<Row> rows = random_leaves(2, 5000, 5);
  const Row expected = tree_sum(rows, 0, 2);
  Group group(2);
  std::vector<Row> in_place = rows;
  group.run_ok([&](Communicator& communicator) -> Status {
    PHALANX_TRY(const TreePlan plan, TreePlan::make(2, 2));
    Row& own = in_place[communicator.rank()];
    const float* node = own.data();
    return communicator.reduce_tree(plan, std::span(&node, 1), own);
  });
  EXPECT_TRUE(same_bits(in_place[0], expected));
  EXPECT_TRUE(same_bits(in_place[1], expected));
}

TEST(ReduceTree, LetsRanksWithoutLeavesTakePart) {
  const std::vector<Row> rows = random_leaves(2, 64, 6);
  Group group(5);
  std::vector<Row> out(5, Row(64));
  group.run_ok([&](Communicator& communicator) {
    return reduce(communicator, rows, out[communicator.rank()]);
  });
  EXPECT_TRUE(same_bits(out[0], tree_sum(rows, 0, 2)));
  EXPECT_TRUE(same_bits(out[4], out[0]));
}

}  // namespace
}  // namespace phalanx::collective
