// SPDX-License-Identifier: Apache-2.0
#include "phalanx/collective/summation_tree.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "phalanx/base/check.h"

namespace phalanx::collective {
namespace {

// The tree has at most ⌈log2 n⌉ levels below the root, so the recursions here are shallow.
void collect_nodes(LeafRange subtree, LeafRange run, std::vector<LeafRange>& nodes) {
  const std::uint32_t run_end = run.first + run.count;
  const std::uint32_t end = subtree.first + subtree.count;
  if (subtree.first >= run_end || run.first >= end) {
    return;
  }
  if (subtree.first >= run.first && end <= run_end) {
    nodes.push_back(subtree);
    return;
  }
  const std::uint32_t left = left_leaves(subtree.count);
  collect_nodes({subtree.first, left}, run, nodes);
  collect_nodes({subtree.first + left, subtree.count - left}, run, nodes);
}

void collect_adds(LeafRange subtree, std::vector<TreeAdd>& adds) {
  if (subtree.count <= 1) {
    return;
  }
  const std::uint32_t left = left_leaves(subtree.count);
  collect_adds({subtree.first, left}, adds);
  collect_adds({subtree.first + left, subtree.count - left}, adds);
  adds.push_back({.into = subtree.first, .from = subtree.first + left});
}

// Emits the steps above the nodes. The value of a subtree goes to register `base`; everything below
// it that is still needed then lies in lower registers, which makes the registers a stack.
class StepEmitter {
 public:
  StepEmitter(std::span<const LeafRange> nodes, std::vector<TreePlan::Step>& steps)
      : nodes_(nodes), steps_(steps) {}

  TreePlan::Operand emit(LeafRange subtree, std::uint32_t base) {
    if (nodes_[next_] == subtree) {
      return {.is_register = false, .index = next_++};
    }
    const std::uint32_t left_count = left_leaves(subtree.count);
    const TreePlan::Operand left = emit({subtree.first, left_count}, base);
    const TreePlan::Operand right = emit({subtree.first + left_count, subtree.count - left_count},
                                         left.is_register ? base + 1 : base);
    registers_ = std::max(registers_, base + 1);
    steps_.push_back({.left = left, .right = right, .target = base});
    return {.is_register = true, .index = base};
  }

  [[nodiscard]] std::uint32_t registers() const { return registers_; }

 private:
  std::span<const LeafRange> nodes_;
  std::vector<TreePlan::Step>& steps_;
  std::uint32_t next_ = 0;
  std::uint32_t registers_ = 0;
};

}  // namespace

std::uint32_t left_leaves(std::uint32_t leaves) {
  PHALANX_CHECK(leaves > 1, "a single leaf does not split");
  return std::bit_floor(leaves - 1);
}

LeafRange leaf_run(std::uint32_t leaves, std::uint32_t rank, std::uint32_t world) {
  PHALANX_CHECK(rank < world, "the rank lies outside its group");
  const auto bound = [leaves, world](std::uint64_t index) {
    return static_cast<std::uint32_t>(index * leaves / world);
  };
  const std::uint32_t first = bound(rank);
  return {.first = first, .count = bound(std::uint64_t{rank} + 1) - first};
}

std::vector<LeafRange> covering_nodes(std::uint32_t leaves, LeafRange run) {
  PHALANX_CHECK(run.count <= leaves && run.first <= leaves - run.count,
                "the run lies outside the tree");
  std::vector<LeafRange> nodes;
  if (run.count > 0) {
    collect_nodes({.first = 0, .count = leaves}, run, nodes);
  }
  return nodes;
}

std::vector<TreeAdd> tree_adds(std::uint32_t leaves) {
  std::vector<TreeAdd> adds;
  adds.reserve(leaves);
  collect_adds({.first = 0, .count = leaves}, adds);
  return adds;
}

Result<TreePlan> TreePlan::make(std::uint32_t leaves, std::uint32_t world) {
  if (leaves == 0 || leaves > kMaxTreeLeaves) {
    return invalid_argument("a summation tree has 1 to " + std::to_string(kMaxTreeLeaves) +
                            " leaves, came " + std::to_string(leaves));
  }
  if (world == 0 || world > kMaxWorld) {
    return invalid_argument("a group has 1 to " + std::to_string(kMaxWorld) + " ranks, came " +
                            std::to_string(world));
  }
  TreePlan plan;
  plan.leaves_ = leaves;
  plan.world_ = world;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    plan.first_node_.push_back(static_cast<std::uint32_t>(plan.nodes_.size()));
    const std::vector<LeafRange> own = covering_nodes(leaves, leaf_run(leaves, rank, world));
    plan.nodes_.insert(plan.nodes_.end(), own.begin(), own.end());
    plan.max_nodes_per_rank_ =
        std::max(plan.max_nodes_per_rank_, static_cast<std::uint32_t>(own.size()));
  }
  plan.first_node_.push_back(static_cast<std::uint32_t>(plan.nodes_.size()));
  StepEmitter emitter(plan.nodes_, plan.steps_);
  emitter.emit({.first = 0, .count = leaves}, 0);
  plan.registers_ = emitter.registers();
  return plan;
}

std::span<const LeafRange> TreePlan::nodes_of(std::uint32_t rank) const {
  PHALANX_CHECK(rank < world_, "the rank lies outside its group");
  return std::span(nodes_).subspan(first_node_[rank], first_node_[rank + 1] - first_node_[rank]);
}

}  // namespace phalanx::collective
