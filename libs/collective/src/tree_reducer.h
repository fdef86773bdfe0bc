// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "phalanx/collective/summation_tree.h"

#include "meeting_point.h"

namespace phalanx::collective {

// One chunk of reduce_tree on one rank: writes the rank's nodes into its slot, and adds the nodes
// of all ranks in tree order.
class TreeReducer {
 public:
  // Floats of one node that fit a slot beside the rank's other nodes.
  [[nodiscard]] static std::size_t stride(const TreePlan& plan, std::size_t slot_bytes) {
    return slot_bytes / sizeof(float) / plan.max_nodes_per_rank() / 16 * 16;
  }

  // Elements [offset, offset + count) of nodes of any length.
  struct Chunk {
    const TreePlan* plan;
    std::span<const float* const> own_nodes;
    std::size_t offset;
    std::size_t count;
  };

  // Step 1 of a meeting.
  void publish(MeetingPoint& point, const Chunk& chunk);

  // Step 4. `out` takes chunk.count floats.
  void sum(const MeetingPoint& point, const Chunk& chunk, float* out);

  static constexpr std::size_t kMaxRegisters = 16;

 private:
  // Floats per pass over the tree: the registers of a pass stay in the first-level cache.
  static constexpr std::size_t kBlockFloats = 512;

  std::array<float, kMaxRegisters * kBlockFloats> registers_{};
};

}  // namespace phalanx::collective
