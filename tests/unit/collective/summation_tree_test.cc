// SPDX-License-Identifier: Apache-2.0
#include "phalanx/collective/summation_tree.h"

#include <string>

#include <gtest/gtest.h>

namespace phalanx::collective {
namespace {

// The tree as a formula, straight from the definition.
std::string formula(std::uint32_t first, std::uint32_t count) {
  if (count == 1) {
    return std::to_string(first);
  }
  std::uint32_t left = 1;
  while (left * 2 < count) {
    left *= 2;
  }
  return "(" + formula(first, left) + "+" + formula(first + left, count - left) + ")";
}

std::string formula_of_adds(std::uint32_t first, std::uint32_t count) {
  std::vector<std::string> value;
  for (std::uint32_t i = 0; i < count; ++i) {
    value.push_back(std::to_string(first + i));
  }
  for (const TreeAdd& add : tree_adds(count)) {
    value.at(add.into) = "(" + value.at(add.into) + "+" + value.at(add.from) + ")";
  }
  return value.at(0);
}

std::string formula_of_plan(const TreePlan& plan) {
  std::vector<std::string> registers(plan.registers());
  const auto operand = [&](TreePlan::Operand which) {
    const LeafRange node = plan.nodes()[which.is_register ? 0 : which.index];
    return which.is_register ? registers.at(which.index) : formula_of_adds(node.first, node.count);
  };
  std::string last = operand({.is_register = false, .index = 0});
  for (const TreePlan::Step& step : plan.steps()) {
    last = "(" + operand(step.left) + "+" + operand(step.right) + ")";
    registers.at(step.target) = last;
  }
  return last;
}

TEST(SummationTree, SplitsAtTheLargestPowerOfTwoBelow) {
  EXPECT_EQ(formula_of_adds(0, 1), "0");
  EXPECT_EQ(formula_of_adds(0, 2), "(0+1)");
  EXPECT_EQ(formula_of_adds(0, 3), "((0+1)+2)");
  EXPECT_EQ(formula_of_adds(0, 4), "((0+1)+(2+3))");
  EXPECT_EQ(formula_of_adds(0, 5), "(((0+1)+(2+3))+4)");
  EXPECT_EQ(formula_of_adds(0, 6), "(((0+1)+(2+3))+(4+5))");
  EXPECT_EQ(left_leaves(16), 8U);
  EXPECT_EQ(left_leaves(17), 16U);
  for (std::uint32_t leaves = 1; leaves < 70; ++leaves) {
    EXPECT_EQ(formula_of_adds(0, leaves), formula(0, leaves));
  }
}

TEST(SummationTree, GivesEveryLeafToExactlyOneRank) {
  for (std::uint32_t leaves = 1; leaves <= 40; ++leaves) {
    for (std::uint32_t world = 1; world <= 12; ++world) {
      std::uint32_t next = 0;
      for (std::uint32_t rank = 0; rank < world; ++rank) {
        const LeafRange run = leaf_run(leaves, rank, world);
        EXPECT_EQ(run.first, next);
        next += run.count;
      }
      EXPECT_EQ(next, leaves);
    }
  }
  EXPECT_EQ(leaf_run(4, 0, 3), (LeafRange{0, 1}));
  EXPECT_EQ(leaf_run(4, 2, 3), (LeafRange{2, 2}));
}

TEST(SummationTree, CoversARunWithTheLargestSubtreesInside) {
  using Nodes = std::vector<LeafRange>;
  EXPECT_EQ(covering_nodes(16, {0, 16}), (Nodes{{0, 16}}));
  EXPECT_EQ(covering_nodes(16, {5, 5}), (Nodes{{5, 1}, {6, 2}, {8, 2}}));
  EXPECT_EQ(covering_nodes(16, {8, 8}), (Nodes{{8, 8}}));
  EXPECT_EQ(covering_nodes(7, {4, 3}), (Nodes{{4, 3}}));
  EXPECT_EQ(covering_nodes(7, {3, 4}), (Nodes{{3, 1}, {4, 3}}));
  EXPECT_EQ(covering_nodes(7, {3, 0}), Nodes{});
}

TEST(TreePlan, AddsTheWholeTreeForEveryWorldSize) {
  for (const std::uint32_t leaves : {1U, 2U, 3U, 4U, 5U, 7U, 8U, 11U, 16U, 23U, 64U, 100U}) {
    for (std::uint32_t world = 1; world <= 9; ++world) {
      const auto plan = TreePlan::make(leaves, world);
      ASSERT_TRUE(plan);
      EXPECT_EQ(formula_of_plan(*plan), formula(0, leaves)) << leaves << " leaves, " << world;
    }
  }
}

TEST(TreePlan, NamesTheNodesOfEachRank) {
  const auto plan = TreePlan::make(16, 3);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->nodes_of(0).size(), 2U);  // leaves 0 … 4 = 4 + 1
  EXPECT_EQ(plan->nodes_of(0)[1], (LeafRange{4, 1}));
  EXPECT_EQ(plan->nodes_of(1).size(), 3U);  // leaves 5 … 9 = 1 + 2 + 2
  EXPECT_EQ(plan->nodes_of(2).size(), 2U);  // leaves 10 … 15 = 2 + 4
  EXPECT_EQ(plan->max_nodes_per_rank(), 3U);
  EXPECT_EQ(plan->first_node(2), 5U);
  EXPECT_EQ(plan->first_node(3), 7U);
}

TEST(TreePlan, KeepsItsPartialSumsInFewRegisters) {
  for (const std::uint32_t leaves : {4U, 100U, kMaxTreeLeaves}) {
    const auto plan = TreePlan::make(leaves, kMaxWorld);
    ASSERT_TRUE(plan);
    EXPECT_LE(plan->registers(), 13U);
  }
}

TEST(TreePlan, RefusesSizesOutOfBounds) {
  for (const auto& [leaves, world] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {0, 1}, {1, 0}, {kMaxTreeLeaves + 1, 1}, {1, kMaxWorld + 1}}) {
    const auto plan = TreePlan::make(leaves, world);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code(), Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace phalanx::collective
