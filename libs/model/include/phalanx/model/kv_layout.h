// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "phalanx/checkpoint/config.h"
#include "phalanx/kernels/layout.h"
#include "phalanx/model/shard_plan.h"

namespace phalanx::model {

// The KV memory of one rank: [blocks][layers][kv_heads of the rank] tiles of kernels/layout.h, in
// bf16. A block is one range of memory, so that memory can come block by block; new memory is
// zeroes. Block numbers are the replica's.
struct KvLayout {
  std::uint32_t layers = 0;
  std::uint32_t blocks = 0;
  std::uint32_t kv_heads = 0;    // of the rank
  std::size_t head_stride = 0;   // elements
  std::size_t layer_stride = 0;  // elements
  std::size_t block_stride = 0;  // elements

  [[nodiscard]] std::size_t block_bytes() const { return block_stride * sizeof(kernels::Bf16); }
  [[nodiscard]] std::size_t bytes() const { return block_bytes() * blocks; }
  [[nodiscard]] std::size_t layer_offset_bytes(std::uint32_t layer) const {
    return layer_stride * layer * sizeof(kernels::Bf16);
  }
};

[[nodiscard]] KvLayout kv_layout(const checkpoint::ModelConfig& config,
                                 const Shard& shard,
                                 std::uint32_t blocks);

// Bytes that one block takes in the rank of `shard`, all layers.
[[nodiscard]] std::size_t kv_block_bytes(const checkpoint::ModelConfig& config, const Shard& shard);

}  // namespace phalanx::model
