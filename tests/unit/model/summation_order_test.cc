// SPDX-License-Identifier: Apache-2.0
// The order of the summation tree is stated twice: by the kernels, which add the leaves of a rank,
// and by the communicator, which adds the nodes of all ranks. They must mean the same tree.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/collective/summation_tree.h"
#include "phalanx/kernels/matmul.h"

namespace phalanx::model {
namespace {

using collective::LeafRange;
using kernels::MatmulLeaf;

// The nodes that the kernels make of a run of leaves, as sums in brackets, by walking the stack
// that MatmulLeaf describes.
std::vector<std::string> by_kernels(std::uint32_t total, LeafRange run) {
  std::vector<MatmulLeaf> leaves(run.count);
  const std::uint32_t count = kernels::plan_leaves(total, run.first, leaves);
  std::vector<std::string> stack;
  std::vector<std::string> nodes;
  for (std::uint32_t i = 0; i < run.count; ++i) {
    stack.push_back(std::to_string(run.first + i));
    for (std::uint32_t merge = 0; merge < leaves[i].merges; ++merge) {
      const std::string upper = stack.back();
      stack.pop_back();
      stack.back() = "(" + stack.back() + "+" + upper + ")";
    }
    if (leaves[i].emit) {
      nodes.push_back(stack.back());
      stack.pop_back();
    }
  }
  EXPECT_TRUE(stack.empty());
  EXPECT_EQ(nodes.size(), count);
  return nodes;
}

// The same, as the communicator expects them.
std::vector<std::string> by_collective(std::uint32_t total, LeafRange run) {
  std::vector<std::string> nodes;
  for (const LeafRange node : collective::covering_nodes(total, run)) {
    std::vector<std::string> values;
    for (std::uint32_t i = 0; i < node.count; ++i) {
      values.push_back(std::to_string(node.first + i));
    }
    for (const collective::TreeAdd& add : collective::tree_adds(node.count)) {
      values[add.into] = "(" + values[add.into] + "+" + values[add.from] + ")";
    }
    nodes.push_back(values[0]);
  }
  return nodes;
}

TEST(SummationOrder, IsTheSameInKernelsAndCollectiveForEveryRun) {
  for (std::uint32_t total = 1; total <= 20; ++total) {
    for (std::uint32_t first = 0; first < total; ++first) {
      for (std::uint32_t count = 1; count <= total - first; ++count) {
        const LeafRange run{first, count};
        ASSERT_EQ(by_kernels(total, run), by_collective(total, run))
            << "leaves " << first << " … " << first + count - 1 << " of " << total;
      }
    }
  }
}

TEST(SummationOrder, IsTheSameForTheRunsOfRanksUpToTheLargestTree) {
  for (std::uint32_t total = 1; total <= kernels::kMaxLeaves; ++total) {
    for (const std::uint32_t world : {1U, 2U, 3U, 4U, 5U, 7U, 8U}) {
      for (std::uint32_t rank = 0; rank < world; ++rank) {
        const LeafRange run = collective::leaf_run(total, rank, world);
        ASSERT_EQ(by_kernels(total, run), by_collective(total, run))
            << "rank " << rank << " of " << world << ", " << total << " leaves";
      }
    }
  }
}

}  // namespace
}  // namespace phalanx::model
