// SPDX-License-Identifier: Apache-2.0
#include "phalanx/model/kv_layout.h"

namespace phalanx::model {

KvLayout kv_layout(const checkpoint::ModelConfig& config,
                   const Shard& shard,
                   std::uint32_t blocks) {
  KvLayout layout;
  layout.layers = config.layers;
  layout.blocks = blocks;
  layout.kv_heads = shard.attention.count;
  layout.head_stride = kernels::kv_tile_elements(config.head_dim);
  layout.layer_stride = layout.head_stride * layout.kv_heads;
  layout.block_stride = layout.layer_stride * layout.layers;
  return layout;
}

std::size_t kv_block_bytes(const checkpoint::ModelConfig& config, const Shard& shard) {
  return kv_layout(config, shard, 1).block_bytes();
}

}  // namespace phalanx::model
