// SPDX-License-Identifier: Apache-2.0
// The summation tree (docs/arithmetic.md): the one order in which partial sums over the units of
// sharding are added, whatever the number of ranks.
//
// Definition. The tree over n leaves is
//   n = 1   the leaf itself;
//   n > 1   tree(first k leaves) + tree(last n - k leaves), k = the largest power of two below n.
// So 2 = 1+1, 3 = 2+1, 4 = 2+2, 5 = 4+1, 6 = 4+2, 16 = 8+8. Every subtree is the tree over its own
// number of leaves. Addition is one fp32 addition per element, rounded to nearest even.
//
// Rank r of w owns the contiguous run of leaves ⌊r·n/w⌋ … ⌊(r+1)·n/w⌋ - 1, which is empty for some
// ranks when w > n. The run is covered by the largest subtrees that lie inside it, its *nodes*: at
// most 2·⌈log2 n⌉ of them. A rank sums each of its nodes itself; the nodes of all ranks, in leaf
// order, are then added as the tree says. All of this is index arithmetic; no value is touched
// here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/base/result.h"

namespace phalanx::collective {

inline constexpr std::uint32_t kMaxWorld = 64;            // ranks of one group
inline constexpr std::uint32_t kMaxTreeLeaves = 1 << 12;  // units of sharding of one layer

// `count` leaves from leaf `first` on: a rank's run, or a node (a subtree).
struct LeafRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  friend bool operator==(const LeafRange&, const LeafRange&) = default;
};

// One addition: value[into] = value[into] + value[from], left operand first.
struct TreeAdd {
  std::uint32_t into = 0;
  std::uint32_t from = 0;
  friend bool operator==(const TreeAdd&, const TreeAdd&) = default;
};

// Where the tree over `leaves` > 1 leaves splits: the number of leaves of its left part.
[[nodiscard]] std::uint32_t left_leaves(std::uint32_t leaves);

// The run of leaves that `rank` of `world` owns. Requires rank < world.
[[nodiscard]] LeafRange leaf_run(std::uint32_t leaves, std::uint32_t rank, std::uint32_t world);

// The largest subtrees of the tree over `leaves` leaves that lie inside `run`, in leaf order.
// Requires run.first + run.count <= leaves.
[[nodiscard]] std::vector<LeafRange> covering_nodes(std::uint32_t leaves, LeafRange run);

// The additions of the tree over `leaves` leaves, in order; the sum ends in value[0]. For a node,
// pass its count: values are indexed from its first leaf.
[[nodiscard]] std::vector<TreeAdd> tree_adds(std::uint32_t leaves);

// How a group of `world` ranks sums one tree. A value; make it once per layer kind and keep it.
// Equal on all ranks.
class TreePlan {
 public:
  // An operand of a step: a node's value, or a partial sum kept in a register.
  struct Operand {
    bool is_register = false;
    std::uint32_t index = 0;
  };
  // register[target] = left + right; the last step leaves the sum in register 0.
  struct Step {
    Operand left;
    Operand right;
    std::uint32_t target = 0;
  };

  // Errors: kInvalidArgument  leaves not in 1 … kMaxTreeLeaves, world not in 1 … kMaxWorld
  [[nodiscard]] static Result<TreePlan> make(std::uint32_t leaves, std::uint32_t world);

  [[nodiscard]] std::uint32_t leaves() const { return leaves_; }
  [[nodiscard]] std::uint32_t world() const { return world_; }

  // All nodes of all ranks in leaf order, which is rank order.
  [[nodiscard]] std::span<const LeafRange> nodes() const { return nodes_; }

  // The nodes that `rank` provides, in order.
  [[nodiscard]] std::span<const LeafRange> nodes_of(std::uint32_t rank) const;

  // Index in nodes() of the first node of `rank`; first_node(world()) is their number.
  [[nodiscard]] std::uint32_t first_node(std::uint32_t rank) const { return first_node_[rank]; }

  // The largest number of nodes that any rank provides: what a rank's slot must have room for.
  [[nodiscard]] std::uint32_t max_nodes_per_rank() const { return max_nodes_per_rank_; }

  // The additions over nodes(); empty if there is only one node.
  [[nodiscard]] std::span<const Step> steps() const { return steps_; }

  // Registers that the steps use, at most ⌈log2 leaves⌉ + 1.
  [[nodiscard]] std::uint32_t registers() const { return registers_; }

 private:
  TreePlan() = default;

  std::uint32_t leaves_ = 1;
  std::uint32_t world_ = 1;
  std::uint32_t max_nodes_per_rank_ = 1;
  std::uint32_t registers_ = 0;
  std::vector<LeafRange> nodes_;
  std::vector<std::uint32_t> first_node_;
  std::vector<Step> steps_;
};

}  // namespace phalanx::collective
