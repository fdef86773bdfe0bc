// SPDX-License-Identifier: Apache-2.0
#include "phalanx/model/weight_arena.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "phalanx/base/hash.h"
#include "phalanx/kernels/arithmetic_version.h"
#include "phalanx/tensor/arena.h"

#include "arena_header.h"
#include "leaf_places.h"

namespace phalanx::model {
namespace {

Result<ArenaHeader> read_header(std::span<const std::byte> memory) {
  if (memory.size() < kArenaHeaderBytes) {
    return failed_precondition("weight arena: expected at least " +
                               std::to_string(kArenaHeaderBytes) + " bytes, found " +
                               std::to_string(memory.size()));
  }
  ArenaHeader header;
  std::memcpy(&header, memory.data(), sizeof(header));
  if (header.magic != ArenaHeader::kMagic) {
    return failed_precondition(
        "weight arena: expected a filled arena, found none: the loader has not finished");
  }
  if (header.version != kArenaVersion) {
    return failed_precondition("weight arena: expected version " + std::to_string(kArenaVersion) +
                               ", found " + std::to_string(header.version));
  }
  return header;
}

LayerOffsets place_layer(const checkpoint::ModelConfig& config,
                         const checkpoint::LayerFormats& formats,
                         tensor::ArenaPlan& plan) {
  const std::size_t hidden = config.hidden;
  const std::size_t head_dim = config.head_dim;
  const std::size_t q_columns = config.heads * head_dim;
  const std::size_t kv_columns = config.kv_heads * head_dim;
  LayerOffsets layer;
  layer.attention_gain = plan.add_array<float>(hidden);
  layer.q = plan.add(packed_bytes(formats.q, q_columns, hidden));
  layer.k = plan.add(packed_bytes(formats.k, kv_columns, hidden));
  layer.v = plan.add(packed_bytes(formats.v, kv_columns, hidden));
  if (config.qk_norm) {
    layer.q_gain = plan.add_array<float>(head_dim);
    layer.k_gain = plan.add_array<float>(head_dim);
  }
  layer.o = plan.add(o_bytes(config, formats.o));
  layer.mlp_gain = plan.add_array<float>(hidden);
  layer.gate = plan.add(packed_bytes(formats.gate, config.intermediate, hidden));
  layer.up = plan.add(packed_bytes(formats.up, config.intermediate, hidden));
  layer.down = plan.add(down_bytes(config, formats.down));
  if (config.qkv_bias) {
    layer.q_bias = plan.add_array<float>(q_columns);
    layer.k_bias = plan.add_array<float>(kv_columns);
    layer.v_bias = plan.add_array<float>(kv_columns);
  }
  if (config.output_bias) {
    layer.o_bias = plan.add_array<float>(hidden);
  }
  if (config.mlp_bias) {
    layer.gate_bias = plan.add_array<float>(config.intermediate);
    layer.up_bias = plan.add_array<float>(config.intermediate);
    layer.down_bias = plan.add_array<float>(hidden);
  }
  return layer;
}

}  // namespace

ArenaLayout layout_of(const checkpoint::ModelConfig& config, std::uint32_t ranks) {
  const std::size_t hidden = config.hidden;
  tensor::ArenaPlan plan;
  plan.add(kArenaHeaderBytes);
  ArenaLayout layout;
  layout.ranks = ranks;
  const checkpoint::WeightFormats& formats = config.formats;
  layout.embedding = plan.add(packed_bytes(formats.embedding, config.vocab, hidden));
  layout.head = config.tied_head ? layout.embedding
                                 : plan.add(packed_bytes(formats.head, config.vocab, hidden));
  layout.final_gain = plan.add_array<float>(hidden);
  for (std::uint32_t index = 0; index < config.layers; ++index) {
    layout.layers.push_back(place_layer(config, formats.layer(index), plan));
  }
  layout.bytes = tensor::round_up(plan.bytes(), kArenaAlignment);
  return layout;
}

std::uint64_t arena_key(const checkpoint::ModelConfig& config,
                        std::uint32_t ranks,
                        std::uint64_t structure_hash) {
  Fingerprint key;
  key.add(structure_hash).add(checkpoint::hash_of(config));
  key.add(kernels::kArithmeticVersion).add(kArenaVersion).add(ranks);
  return key.value();
}

Result<WeightArena> open_arena(std::span<const std::byte> memory,
                               const checkpoint::ModelConfig& config) {
  PHALANX_TRY(const ArenaHeader header, read_header(memory));
  WeightArena arena;
  arena.layout = layout_of(config, header.ranks);
  if (header.config_hash != checkpoint::hash_of(config)) {
    return failed_precondition("weight arena: expected weights of configuration " +
                               std::to_string(checkpoint::hash_of(config)) + ", found " +
                               std::to_string(header.config_hash));
  }
  if (memory.size() != arena.layout.bytes || header.bytes != arena.layout.bytes) {
    return data_loss("weight arena: expected " + std::to_string(arena.layout.bytes) +
                     " bytes, found " + std::to_string(memory.size()));
  }
  if (const auto shard = plan_shard(config, 0, header.ranks); !shard) {
    return data_loss("weight arena: number of ranks: " + std::string(shard.error().message()));
  }
  arena.memory = memory;
  arena.key = header.key;
  arena.content_hash = header.content_hash;
  return arena;
}

}  // namespace phalanx::model
