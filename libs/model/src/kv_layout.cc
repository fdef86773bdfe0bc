// SPDX-License-Identifier: Apache-2.0
#include "phalanx/model/kv_layout.h"

namespace phalanx::model {

using kernels::KvFormat;

KvLayout kv_layout(const checkpoint::ModelConfig& config,
                   const Shard& shard,
                   const step::RankLimits& limits) {
  KvLayout layout;
  layout.format = limits.kv_format;
  layout.layers = config.layers;
  layout.blocks = limits.kv_blocks;
  layout.kv_heads = shard.attention.count;
  layout.head_stride = kernels::kv_tile(layout.format, config.head_dim).bytes;
  layout.layer_stride = layout.head_stride * layout.kv_heads;
  layout.block_stride = layout.layer_stride * layout.layers;
  return layout;
}

std::size_t kv_block_bytes(const checkpoint::ModelConfig& config,
                           const Shard& shard,
                           KvFormat format) {
  step::RankLimits limits;
  limits.kv_format = format;
  return kv_layout(config, shard, limits).block_stride;
}

}  // namespace phalanx::model
