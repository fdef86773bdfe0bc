// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/checkpoint/config.h"
#include "phalanx/kernels/layout.h"
#include "phalanx/model/shard_plan.h"
#include "phalanx/step/limits.h"

namespace phalanx::model {

// The KV memory of one rank: [blocks][layers][kv_heads of the rank] tiles of kernels/layout.h. A
// block is one range of memory, so that memory can come block by block; new memory is zeroes. Block
// numbers are the replica's.
struct KvLayout {
  kernels::KvFormat format = kernels::KvFormat::kBf16;
  std::uint32_t layers = 0;
  std::uint32_t blocks = 0;
  std::uint32_t kv_heads = 0;    // of the rank
  std::size_t head_stride = 0;   // bytes
  std::size_t layer_stride = 0;  // bytes
  std::size_t block_stride = 0;  // bytes

  [[nodiscard]] std::size_t bytes() const { return block_stride * blocks; }
  [[nodiscard]] std::size_t layer_offset(std::uint32_t layer) const { return layer_stride * layer; }
  [[nodiscard]] kernels::KvView view() const {
    return {nullptr, block_stride, head_stride, format};
  }
};

// For limits.kv_blocks blocks of limits.kv_format.
[[nodiscard]] KvLayout kv_layout(const checkpoint::ModelConfig& config,
                                 const Shard& shard,
                                 const step::RankLimits& limits);

// Bytes that one block takes in the rank of `shard`, all layers.
[[nodiscard]] std::size_t kv_block_bytes(const checkpoint::ModelConfig& config,
                                         const Shard& shard,
                                         kernels::KvFormat format);

}  // namespace phalanx::model
