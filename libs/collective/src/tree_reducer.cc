// SPDX-License-Identifier: Apache-2.0
#include "tree_reducer.h"

#include <algorithm>
#include <cstring>

namespace phalanx::collective {
namespace {

// Where the values of `node` lie: in the caller's memory if it is its own, else in its owner's
// slot.
const float* node_values(const MeetingPoint& point,
                         const TreeReducer::Chunk& chunk,
                         std::uint32_t node) {
  std::uint32_t owner = 0;
  while (chunk.plan->first_node(owner + 1) <= node) {
    ++owner;
  }
  const std::uint32_t index = node - chunk.plan->first_node(owner);
  if (owner == point.rank()) {
    return chunk.own_nodes[index] + chunk.offset;
  }
  return reinterpret_cast<const float*>(point.slot(owner)) +
         index * TreeReducer::stride(*chunk.plan, point.spec().slot_bytes);
}

}  // namespace

void TreeReducer::publish(MeetingPoint& point, const Chunk& chunk) {
  if (point.spec().world == 1) {
    return;  // nobody would read it
  }
  const std::size_t step = stride(*chunk.plan, point.spec().slot_bytes);
  auto* slot = reinterpret_cast<float*>(point.slot(point.rank()));
  for (std::size_t i = 0; i < chunk.own_nodes.size(); ++i) {
    std::copy_n(chunk.own_nodes[i] + chunk.offset, chunk.count, slot + i * step);
  }
  point.counters().bytes += chunk.own_nodes.size() * chunk.count * sizeof(float);
}

void TreeReducer::sum(const MeetingPoint& point, const Chunk& chunk, float* out) {
  const std::span<const TreePlan::Step> steps = chunk.plan->steps();
  if (steps.empty()) {
    const float* only = node_values(point, chunk, 0);
    if (only != out) {
      std::copy_n(only, chunk.count, out);
    }
    return;
  }
  for (std::size_t begin = 0; begin < chunk.count; begin += kBlockFloats) {
    const std::size_t size = std::min(kBlockFloats, chunk.count - begin);
    const auto operand = [&](TreePlan::Operand which) -> const float* {
      return which.is_register ? registers_.data() + which.index * kBlockFloats
                               : node_values(point, chunk, which.index) + begin;
    };
    for (const TreePlan::Step& step : steps) {
      const float* left = operand(step.left);
      const float* right = operand(step.right);
      float* target =
          &step == &steps.back() ? out + begin : registers_.data() + step.target * kBlockFloats;
      for (std::size_t k = 0; k < size; ++k) {
        target[k] = left[k] + right[k];
      }
    }
  }
}

}  // namespace phalanx::collective
