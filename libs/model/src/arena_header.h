// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "phalanx/model/weight_arena.h"

namespace phalanx::model {

inline constexpr std::size_t kArenaHeaderBytes = 4096;

// The first bytes of an arena. `magic` is written last, so that a loader that was killed leaves no
// arena behind.
struct ArenaHeader {
  static constexpr std::uint64_t kMagic = 0x414E4552584C4850ULL;  // "PHLXRENA" in memory

  std::uint64_t magic = 0;
  std::uint32_t version = 0;
  std::uint32_t reserved = 0;
  std::uint64_t bytes = 0;
  std::uint64_t key = 0;
  std::uint64_t config_hash = 0;
  std::uint64_t content_hash = 0;
};
static_assert(sizeof(ArenaHeader) <= kArenaHeaderBytes);

// Bytes of a packed matrix of the arena with `columns` outputs and `k` inputs; of so many columns
// of one when `columns` is a multiple of a strip.
inline std::size_t packed_bytes(kernels::WeightFormat format, std::size_t columns, std::size_t k) {
  return kernels::weight_bytes(format, k, columns);
}

// `o` and `down` are split along K into leaves, each a packed matrix of its own. They lie together
// by the columns that a tile of a product reads: 64 columns of all leaves, one leaf after the
// other, then the next 64. The last columns take as much room.

// Of one group of 64 columns: from its beginning to the leaf of a KV head or of an MLP run; of the
// one after the last: to its end, which is where the next group begins. A leaf has scales of its
// own, so its bytes do not follow from its blocks alone.
inline std::size_t o_bytes_before(const checkpoint::ModelConfig& config,
                                  kernels::WeightFormat format,
                                  std::uint32_t kv_head) {
  const std::size_t k = std::size_t{config.heads_per_group()} * config.head_dim;
  return kv_head * packed_bytes(format, kernels::kGroupColumns, k);
}
inline std::size_t down_bytes_before(const checkpoint::ModelConfig& config,
                                     kernels::WeightFormat format,
                                     std::uint32_t run) {
  const Units units = units_of(config);
  std::size_t bytes = 0;
  for (std::uint32_t before = 0; before < run; ++before) {
    const std::size_t k = std::size_t{units.mlp_blocks_of(before).count} * kMlpBlock;
    bytes += packed_bytes(format, kernels::kGroupColumns, k);
  }
  return bytes;
}

// Groups of columns of `o` and `down`.
inline std::size_t column_groups(const checkpoint::ModelConfig& config) {
  return (config.hidden + kernels::kGroupColumns - 1) / kernels::kGroupColumns;
}

}  // namespace phalanx::model
