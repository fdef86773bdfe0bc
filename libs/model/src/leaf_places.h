// SPDX-License-Identifier: Apache-2.0
// Where the leaves of `o` and `down` lie in the arena.
//
// Both matrices are split along K into leaves, each a packed matrix of its own: of a KV head, or of
// an MLP run. Those of one rank lie together by the columns that a tile of a product reads: 64
// columns of all of them, one leaf after the other, then the next 64. The last columns take as much
// room. So what a rank reads is one stream, and behind it is that of the next rank. A group of
// another size than the arena is laid out for finds the same leaves, with gaps between them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "phalanx/checkpoint/config.h"
#include "phalanx/kernels/weight.h"

namespace phalanx::model {

struct LeafPlace {
  std::size_t offset;        // of its first 64 columns, from the beginning of the matrix
  std::size_t group_stride;  // bytes from these to its next 64
};

// In an arena that is laid out for `ranks` ranks.
// Requires: ranks that plan_shard() takes; a leaf of the model.
[[nodiscard]] LeafPlace o_leaf(const checkpoint::ModelConfig& config,
                               kernels::WeightFormat format,
                               std::uint32_t ranks,
                               std::uint32_t kv_head);
[[nodiscard]] LeafPlace down_leaf(const checkpoint::ModelConfig& config,
                                  kernels::WeightFormat format,
                                  std::uint32_t ranks,
                                  std::uint32_t mlp_run);

// Bytes of the matrix, however it is laid out.
[[nodiscard]] std::size_t o_bytes(const checkpoint::ModelConfig& config,
                                  kernels::WeightFormat format);
[[nodiscard]] std::size_t down_bytes(const checkpoint::ModelConfig& config,
                                     kernels::WeightFormat format);

}  // namespace phalanx::model
