// SPDX-License-Identifier: Apache-2.0
#include "phalanx/model/weight_arena.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "phalanx/base/hash.h"
#include "phalanx/kernels/arithmetic_version.h"
#include "phalanx/tensor/arena.h"

#include "arena_header.h"

namespace phalanx::model {
namespace {

class RangeList {
 public:
  void add(std::size_t offset, std::size_t bytes) { ranges_.push_back({offset, bytes}); }

  [[nodiscard]] std::vector<ByteRange> merged() && {
    std::sort(ranges_.begin(), ranges_.end(), [](ByteRange a, ByteRange b) {
      return a.offset < b.offset;
    });
    std::vector<ByteRange> result;
    for (const ByteRange range : ranges_) {
      if (!result.empty() && result.back().offset + result.back().bytes >= range.offset) {
        ByteRange& last = result.back();
        last.bytes = std::max(last.offset + last.bytes, range.offset + range.bytes) - last.offset;
      } else {
        result.push_back(range);
      }
    }
    return result;
  }

 private:
  std::vector<ByteRange> ranges_;
};

void add_vectors(const checkpoint::ModelConfig& config,
                 const Shard& shard,
                 const LayerOffsets& layer,
                 RangeList& ranges) {
  const std::size_t head_dim = config.head_dim;
  const std::size_t kv_first = shard.attention.first * head_dim;
  const std::size_t kv_count = shard.attention.count * head_dim;
  const std::size_t group = config.heads_per_group();
  const auto floats = [&](std::size_t vector, std::size_t first, std::size_t count) {
    ranges.add(vector + first * sizeof(float), count * sizeof(float));
  };
  floats(layer.attention_gain, 0, config.hidden);
  floats(layer.mlp_gain, 0, config.hidden);
  if (config.qk_norm) {
    floats(layer.q_gain, 0, config.head_dim);
    floats(layer.k_gain, 0, config.head_dim);
  }
  if (config.qkv_bias) {
    floats(layer.q_bias, kv_first * group, kv_count * group);
    floats(layer.k_bias, kv_first, kv_count);
    floats(layer.v_bias, kv_first, kv_count);
  }
  if (config.output_bias) {
    floats(layer.o_bias, 0, config.hidden);
  }
  if (config.mlp_bias) {
    const std::size_t first = std::size_t{shard.mlp_blocks.first} * kMlpBlock;
    const std::size_t count = std::size_t{shard.mlp_blocks.count} * kMlpBlock;
    floats(layer.gate_bias, first, count);
    floats(layer.up_bias, first, count);
    floats(layer.down_bias, 0, config.hidden);
  }
}

void add_layer(const checkpoint::ModelConfig& config,
               const Shard& shard,
               const LayerOffsets& layer,
               const checkpoint::LayerFormats& formats,
               RangeList& ranges) {
  add_vectors(config, shard, layer, ranges);
  const std::size_t hidden = config.hidden;
  const std::size_t head_dim = config.head_dim;
  const std::size_t group = config.heads_per_group();
  const auto columns = [&](kernels::WeightFormat format, std::size_t matrix, Run run) {
    ranges.add(matrix + packed_bytes(format, run.first, hidden),
               packed_bytes(format, run.count, hidden));
  };
  const auto times = [](Run run, std::size_t factor) {
    return Run{static_cast<std::uint32_t>(run.first * factor),
               static_cast<std::uint32_t>(run.count * factor)};
  };
  columns(formats.q, layer.q, times(shard.attention, group * head_dim));
  columns(formats.k, layer.k, times(shard.attention, head_dim));
  columns(formats.v, layer.v, times(shard.attention, head_dim));
  const std::size_t o_bytes = packed_bytes(formats.o, hidden, group * head_dim);
  ranges.add(layer.o + shard.attention.first * o_bytes, shard.attention.count * o_bytes);
  columns(formats.gate, layer.gate, times(shard.mlp_blocks, kMlpBlock));
  columns(formats.up, layer.up, times(shard.mlp_blocks, kMlpBlock));
  const auto down = [&](std::uint32_t run) { return down_bytes_before(config, formats.down, run); };
  const std::size_t first = down(shard.mlp.first);
  ranges.add(layer.down + first, down(shard.mlp.end()) - first);
}

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
  const std::size_t group_columns = config.heads_per_group() * head_dim;
  LayerOffsets layer;
  layer.attention_gain = plan.add_array<float>(hidden);
  layer.q = plan.add(packed_bytes(formats.q, q_columns, hidden));
  layer.k = plan.add(packed_bytes(formats.k, kv_columns, hidden));
  layer.v = plan.add(packed_bytes(formats.v, kv_columns, hidden));
  if (config.qk_norm) {
    layer.q_gain = plan.add_array<float>(head_dim);
    layer.k_gain = plan.add_array<float>(head_dim);
  }
  layer.o = plan.add(config.kv_heads * packed_bytes(formats.o, hidden, group_columns));
  layer.mlp_gain = plan.add_array<float>(hidden);
  layer.gate = plan.add(packed_bytes(formats.gate, config.intermediate, hidden));
  layer.up = plan.add(packed_bytes(formats.up, config.intermediate, hidden));
  layer.down = plan.add(down_bytes_before(config, formats.down, units_of(config).mlp));
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

ArenaLayout layout_of(const checkpoint::ModelConfig& config) {
  const std::size_t hidden = config.hidden;
  tensor::ArenaPlan plan;
  plan.add(kArenaHeaderBytes);
  ArenaLayout layout;
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

std::vector<ByteRange> arena_ranges(const checkpoint::ModelConfig& config, const Shard& shard) {
  const ArenaLayout layout = layout_of(config);
  RangeList ranges;
  ranges.add(0, kArenaHeaderBytes);
  const kernels::WeightFormat head = config.formats.head;
  ranges.add(layout.embedding, packed_bytes(config.formats.embedding, config.vocab, config.hidden));
  ranges.add(layout.head + packed_bytes(head, shard.tokens.first, config.hidden),
             packed_bytes(head, shard.tokens.count, config.hidden));
  ranges.add(layout.final_gain, config.hidden * sizeof(float));
  for (std::size_t index = 0; index < layout.layers.size(); ++index) {
    add_layer(config, shard, layout.layers[index], config.formats.layer(index), ranges);
  }
  return std::move(ranges).merged();
}

std::uint64_t arena_key(const checkpoint::ModelConfig& config, std::uint64_t structure_hash) {
  Fingerprint key;
  key.add(structure_hash).add(checkpoint::hash_of(config));
  key.add(kernels::kArithmeticVersion).add(kArenaVersion);
  return key.value();
}

Result<WeightArena> open_arena(std::span<const std::byte> memory,
                               const checkpoint::ModelConfig& config) {
  PHALANX_TRY(const ArenaHeader header, read_header(memory));
  WeightArena arena;
  arena.layout = layout_of(config);
  if (header.config_hash != checkpoint::hash_of(config)) {
    return failed_precondition("weight arena: expected weights of configuration " +
                               std::to_string(checkpoint::hash_of(config)) + ", found " +
                               std::to_string(header.config_hash));
  }
  if (memory.size() != arena.layout.bytes || header.bytes != arena.layout.bytes) {
    return data_loss("weight arena: expected " + std::to_string(arena.layout.bytes) +
                     " bytes, found " + std::to_string(memory.size()));
  }
  arena.memory = memory;
  arena.key = header.key;
  arena.content_hash = header.content_hash;
  return arena;
}

Result<WeightArena> open_arena(std::span<const std::byte> memory,
                               const checkpoint::ModelConfig& config,
                               std::uint64_t expected_key) {
  PHALANX_TRY(WeightArena arena, open_arena(memory, config));
  if (arena.key != expected_key) {
    return failed_precondition("weight arena: expected key " + std::to_string(expected_key) +
                               ", found " + std::to_string(arena.key) +
                               ": it was filled from another checkpoint or by another version");
  }
  return arena;
}

}  // namespace phalanx::model
