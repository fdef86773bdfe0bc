// SPDX-License-Identifier: Apache-2.0
#include "leaf_places.h"

#include "phalanx/model/shard_plan.h"

#include "arena_header.h"

namespace phalanx::model {
namespace {

// Groups of columns of either matrix.
std::size_t column_groups(const checkpoint::ModelConfig& config) {
  return (config.hidden + kernels::kGroupColumns - 1) / kernels::kGroupColumns;
}

// Bytes of 64 columns of the first `count` leaves. A leaf has scales of its own, so its bytes do
// not follow from its inputs alone.
std::size_t o_leaves_bytes(const checkpoint::ModelConfig& config,
                           kernels::WeightFormat format,
                           std::uint32_t count) {
  const std::size_t k = std::size_t{config.heads_per_group()} * config.head_dim;
  return count * packed_bytes(format, kernels::kGroupColumns, k);
}
std::size_t down_leaves_bytes(const checkpoint::ModelConfig& config,
                              kernels::WeightFormat format,
                              std::uint32_t count) {
  const Units units = units_of(config);
  std::size_t bytes = 0;
  for (std::uint32_t run = 0; run < count; ++run) {
    const std::size_t k = std::size_t{units.mlp_blocks_of(run).count} * kMlpBlock;
    bytes += packed_bytes(format, kernels::kGroupColumns, k);
  }
  return bytes;
}

// The leaves of the rank that has this one.
Run leaves_beside(std::uint32_t leaves, std::uint32_t ranks, std::uint32_t leaf) {
  std::uint32_t rank = 0;
  while (run_of(leaves, rank, ranks).end() <= leaf) {
    ++rank;
  }
  return run_of(leaves, rank, ranks);
}

// `before` has the bytes of 64 columns of the first leaves of a matrix.
template <typename Before>
LeafPlace place_of(std::size_t groups, Run of_rank, std::uint32_t leaf, const Before& before) {
  const std::size_t first = before(of_rank.first);
  return {groups * first + before(leaf) - first, before(of_rank.end()) - first};
}

}  // namespace

LeafPlace o_leaf(const checkpoint::ModelConfig& config,
                 kernels::WeightFormat format,
                 std::uint32_t ranks,
                 std::uint32_t kv_head) {
  const Run of_rank = leaves_beside(config.kv_heads, ranks, kv_head);
  return place_of(column_groups(config), of_rank, kv_head, [&](std::uint32_t count) {
    return o_leaves_bytes(config, format, count);
  });
}

LeafPlace down_leaf(const checkpoint::ModelConfig& config,
                    kernels::WeightFormat format,
                    std::uint32_t ranks,
                    std::uint32_t mlp_run) {
  const Run of_rank = leaves_beside(units_of(config).mlp, ranks, mlp_run);
  return place_of(column_groups(config), of_rank, mlp_run, [&](std::uint32_t count) {
    return down_leaves_bytes(config, format, count);
  });
}

std::size_t o_bytes(const checkpoint::ModelConfig& config, kernels::WeightFormat format) {
  return column_groups(config) * o_leaves_bytes(config, format, config.kv_heads);
}

std::size_t down_bytes(const checkpoint::ModelConfig& config, kernels::WeightFormat format) {
  return column_groups(config) * down_leaves_bytes(config, format, units_of(config).mlp);
}

}  // namespace phalanx::model
