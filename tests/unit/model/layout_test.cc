// SPDX-License-Identifier: Apache-2.0
// Shards, the arena, KV and the memory plan.
#include "phalanx/kernels/layout.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/model/kv_layout.h"
#include "phalanx/model/memory_plan.h"
#include "phalanx/model/shard_plan.h"
#include "phalanx/model/weight_arena.h"
#include "phalanx/step/limits.h"
#include "phalanx/step/sample_result.h"
#include "phalanx/tensor/arena.h"

#include "unit/checkpoint/test_checkpoint.h"

namespace phalanx::model {
namespace {

checkpoint::ModelConfig config_of(const checkpoint::TestShape& shape) {
  return checkpoint::parse_config(checkpoint::config_json(shape)).value();
}

TEST(ShardPlan, GivesEveryUnitToExactlyOneRank) {
  for (const std::uint32_t kv_heads : {3U, 4U, 8U}) {
    for (const std::uint32_t intermediate : {160U, 608U, 512U, 1088U, 1120U, 3072U}) {
      checkpoint::TestShape shape;
      shape.heads = 2 * kv_heads;
      shape.kv_heads = kv_heads;
      shape.intermediate = intermediate;
      const checkpoint::ModelConfig config = config_of(shape);
      const Units units = units_of(config);
      for (std::uint32_t ranks = 1; ranks <= std::min(kv_heads, 4U); ++ranks) {
        Shard before;
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          const Shard shard = plan_shard(config, rank, ranks).value();
          EXPECT_EQ(shard.attention.first, before.attention.end());
          EXPECT_EQ(shard.mlp.first, before.mlp.end());
          EXPECT_EQ(shard.mlp_blocks.first, before.mlp_blocks.end());
          EXPECT_EQ(shard.tokens.first, before.tokens.end());
          EXPECT_GT(shard.attention.count * shard.mlp.count * shard.tokens.count, 0U);
          before = shard;
        }
        EXPECT_EQ(before.attention.end(), units.attention);
        EXPECT_EQ(before.mlp_blocks.end(), units.mlp_blocks);
        EXPECT_EQ(before.tokens.end(), config.vocab);
      }
    }
  }
}

// Superblocks of scales, where there are enough of them: docs/arithmetic.md.
TEST(ShardPlan, RunsOfTheMlpAreWholeSuperblocksWhereTheyCanBe) {
  checkpoint::TestShape shape;
  const auto third_run = [&](std::uint32_t intermediate) {
    shape.intermediate = intermediate;
    return units_of(config_of(shape)).mlp_blocks_of(2);
  };
  EXPECT_EQ(third_run(9728), (model::Run{38, 18}));  // 152 superblocks: 19 … 27
  EXPECT_EQ(third_run(3072), (model::Run{12, 6}));
  EXPECT_EQ(third_run(1024), (model::Run{4, 2}));
  EXPECT_EQ(third_run(960), (model::Run{3, 2}));   // 15 superblocks are too few: 30 blocks
  EXPECT_EQ(third_run(1056), (model::Run{4, 2}));  // 33 blocks
  EXPECT_EQ(third_run(160), (model::Run{2, 1}));
}

TEST(ShardPlan, RefusesMoreRanksThanKvHeads) {
  const auto shard = plan_shard(config_of({}), 0, 5);
  ASSERT_FALSE(shard.has_value());
  EXPECT_EQ(shard.error().code(), Code::kInvalidArgument);
  EXPECT_NE(shard.error().message().find("at most 4"), std::string::npos);
  EXPECT_NE(shard.error().message().find("KV heads"), std::string::npos);
  EXPECT_FALSE(plan_shard(config_of({}), 2, 2).has_value());
}

struct Filled {
  explicit Filled(const checkpoint::TestShape& shape, std::uint32_t threads = 1) {
    files = checkpoint::random_checkpoint(shape);
    checkpoint =
        std::make_unique<checkpoint::Checkpoint>(checkpoint::Checkpoint::open(*files).value());
    memory = tensor::AlignedBuffer(layout_of(checkpoint->config()).bytes, kArenaAlignment);
    hash = fill_arena(*checkpoint,
                      checkpoint->config(),
                      memory.bytes(),
                      {threads,
                       [this](std::uint64_t done, std::uint64_t total) {
                         EXPECT_LE(done, total);
                         last_done = done;
                         last_total = total;
                       }})
               .value();
  }
  std::unique_ptr<checkpoint::MemorySource> files;
  std::unique_ptr<checkpoint::Checkpoint> checkpoint;
  tensor::AlignedBuffer memory;
  std::uint64_t hash = 0;
  std::uint64_t last_done = 0;
  std::uint64_t last_total = 0;
};

TEST(WeightArena, HoldsTheSameBytesForAnyNumberOfThreads) {
  const Filled one({}, 1);
  const Filled three({}, 3);
  EXPECT_EQ(one.hash, three.hash);
  EXPECT_EQ(std::memcmp(one.memory.bytes().data(), three.memory.bytes().data(), one.memory.size()),
            0);
  EXPECT_EQ(one.last_done, one.last_total);
  EXPECT_GT(one.last_total, 0U);
}

TEST(WeightArena, PacksEachWeightWhereItsLayoutSays) {
  const checkpoint::TestShape shape;
  const Filled filled(shape);
  const checkpoint::ModelConfig& config = filled.checkpoint->config();
  const ArenaLayout layout = layout_of(config);
  const auto element = [&](std::size_t offset, std::size_t index) {
    tensor::Bf16 value;
    std::memcpy(&value, filled.memory.bytes().data() + offset + 2 * index, 2);
    return value;
  };
  const auto expected = [&](const char* name, std::uint64_t row, std::uint64_t column) {
    std::vector<tensor::Bf16> value(1);
    filled.checkpoint->weight(name).read_bf16(row, column, value);
    return value[0];
  };
  EXPECT_EQ(element(layout.layers[1].q, kernels::packed_index(200, 63, 64)),
            expected("model.layers.1.self_attn.q_proj.weight", 200, 63));
  EXPECT_EQ(element(layout.head, kernels::packed_index(300, 5, 64)),
            expected("model.embed_tokens.weight", 300, 5));
  // Group 2 of the output projection begins at column 2 · 2 · 32 of the checkpoint.
  const std::size_t group = kernels::packed_elements(64, 64);
  EXPECT_EQ(element(layout.layers[0].o, 2 * group + kernels::packed_index(17, 3, 64)),
            expected("model.layers.0.self_attn.o_proj.weight", 17, 131));
  // Run 5 of 19 blocks in 16 runs is blocks 5 and 6: one packed matrix of 64 inputs.
  const std::size_t block = kernels::packed_elements(64, 32);
  EXPECT_EQ(units_of(config).mlp_blocks_of(5), (model::Run{5, 2}));
  EXPECT_EQ(element(layout.layers[0].down, 5 * block + kernels::packed_index(40, 41, 64)),
            expected("model.layers.0.mlp.down_proj.weight", 40, 6 * 32 + 9));
}

// 160 columns are two groups of 64 and half of one, which takes as much room.
TEST(WeightArena, PutsTheLeavesOfAGroupOfColumnsTogether) {
  checkpoint::TestShape shape;
  shape.hidden = 160;
  const Filled filled(shape);
  const checkpoint::ModelConfig& config = filled.checkpoint->config();
  const LayerOffsets layer = layout_of(config).layers[1];
  const auto check = [&](std::size_t matrix,
                         const std::string& name,
                         std::size_t leaf_bytes,
                         std::size_t stride,
                         std::size_t leaf_k,
                         std::size_t first_k) {
    for (const std::size_t column : {0U, 63U, 64U, 140U, 159U}) {
      for (const std::size_t k : {std::size_t{0}, leaf_k - 1}) {
        tensor::Bf16 found;
        std::vector<tensor::Bf16> expected(1);
        std::memcpy(&found,
                    filled.memory.bytes().data() + matrix + column / 64 * stride + leaf_bytes +
                        2 * kernels::packed_index(column % 64, k, leaf_k),
                    2);
        filled.checkpoint->weight("model.layers.1." + name)
            .read_bf16(column, first_k + k, expected);
        EXPECT_EQ(found, expected[0]) << name << " " << column << " " << k;
      }
    }
  };
  const std::size_t head = 64 * 64 * 2;  // 2 heads of 32
  check(layer.o, "self_attn.o_proj.weight", 3 * head, 4 * head, 64, 3 * 64);
  const model::Run last = units_of(config).mlp_blocks_of(15);
  ASSERT_EQ(last.end(), 19U);
  const std::size_t block = 64 * 32 * 2;
  check(layer.down,
        "mlp.down_proj.weight",
        last.first * block,
        19 * block,
        std::size_t{last.count} * 32,
        std::size_t{last.first} * 32);
  EXPECT_GE(layout_of(config).bytes, layer.down + 3 * 19 * block);
}

TEST(WeightArena, OpensOnlyWhatItWasFilledFor) {
  const Filled filled({});
  const checkpoint::ModelConfig& config = filled.checkpoint->config();
  const std::uint64_t key = arena_key(config, filled.checkpoint->structure_hash());
  const auto arena = open_arena(filled.memory.bytes(), config);
  ASSERT_TRUE(arena.has_value()) << arena.error().to_string();
  EXPECT_EQ(arena->content_hash, filled.hash);
  EXPECT_EQ(arena->key, key);
  checkpoint::ModelConfig other = config;
  other.rms_norm_eps = 1e-5F;
  EXPECT_EQ(open_arena(filled.memory.bytes(), other).error().code(), Code::kFailedPrecondition);
  EXPECT_EQ(open_arena(filled.memory.bytes().first(8192), config).error().code(), Code::kDataLoss);
  const tensor::AlignedBuffer empty(filled.memory.size(), kArenaAlignment);
  EXPECT_EQ(open_arena(empty.bytes(), config).error().code(), Code::kFailedPrecondition);
  EXPECT_FALSE(open_arena({}, config).has_value());
  EXPECT_FALSE(fill_arena(*filled.checkpoint, config, empty.bytes().first(4096), {}).has_value());
  EXPECT_EQ(fill_arena(*filled.checkpoint, other, filled.memory.bytes(), {}).error().code(),
            Code::kFailedPrecondition);
}

// The error of an arena of these tensors, one of which has `bits` as its number of that index.
std::string refusal_of(const std::string& name, std::size_t index, std::uint16_t bits) {
  std::vector<checkpoint::TestTensor> tensors = checkpoint::random_tensors({});
  const auto tensor = std::find_if(
      tensors.begin(), tensors.end(), [&](const auto& each) { return each.name == name; });
  std::memcpy(tensor->bytes.data() + index * sizeof(bits), &bits, sizeof(bits));
  checkpoint::MemorySource files;
  files.put("config.json", checkpoint::config_json({}));
  files.put("model.safetensors", checkpoint::write_safetensors(tensors));
  const checkpoint::Checkpoint checkpoint = checkpoint::Checkpoint::open(files).value();
  const tensor::AlignedBuffer memory(layout_of(checkpoint.config()).bytes, kArenaAlignment);
  bool told_all = false;
  FillOptions options;
  options.progress = [&](std::uint64_t done, std::uint64_t total) { told_all = done == total; };
  const auto filled = fill_arena(checkpoint, checkpoint.config(), memory.bytes(), options);
  EXPECT_EQ(told_all, filled.has_value());
  return filled ? "" : filled.error().message();
}

// A request would fail by them, and seem to be at fault.
TEST(WeightArena, RefusesNumbersThatAreNone) {
  constexpr std::uint16_t kNan = 0x7FC0;
  constexpr std::uint16_t kMinusInfinity = 0xFF80;
  constexpr std::uint16_t kLargest = 0x7F7F;
  const std::string output = "model.layers.1.self_attn.o_proj.weight";  // 64 rows of 256
  EXPECT_EQ(refusal_of(output, 63 * 256 + 200, kLargest), "");
  for (const std::uint16_t bad : {kNan, kMinusInfinity}) {
    EXPECT_EQ(refusal_of(output, 63 * 256 + 200, bad),
              output +
                  ": row 63, column 200: expected a number that bf16 holds, found an infinite one "
                  "or NaN: the file is damaged or was converted wrongly");
    EXPECT_TRUE(refusal_of("model.norm.weight", 9, bad)
                    .starts_with("model.norm.weight: row 0, column 9: "));
    EXPECT_TRUE(refusal_of("model.embed_tokens.weight", 300 * 64, bad)
                    .starts_with("model.embed_tokens.weight: row 300, column 0: "));
  }
}

checkpoint::TestShape biased_shape() {
  checkpoint::TestShape shape;
  shape.model_type = "llama";
  shape.attention_bias = true;
  shape.mlp_bias = true;
  shape.tied = false;
  return shape;
}

TEST(WeightArena, KeepsEachBiasAsFp32) {
  const Filled filled(biased_shape());
  const ArenaLayout layout = layout_of(filled.checkpoint->config());
  const LayerOffsets& layer = layout.layers[1];
  const std::pair<std::size_t, const char*> biases[] = {{layer.q_bias, "self_attn.q_proj"},
                                                        {layer.k_bias, "self_attn.k_proj"},
                                                        {layer.v_bias, "self_attn.v_proj"},
                                                        {layer.o_bias, "self_attn.o_proj"},
                                                        {layer.gate_bias, "mlp.gate_proj"},
                                                        {layer.up_bias, "mlp.up_proj"},
                                                        {layer.down_bias, "mlp.down_proj"}};
  for (const auto& [offset, name] : biases) {
    const checkpoint::WeightTensor& weight =
        filled.checkpoint->weight("model.layers.1." + std::string(name) + ".bias");
    std::vector<tensor::Bf16> expected(weight.columns);
    weight.read_bf16(0, 0, expected);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      float found = 0;
      std::memcpy(&found, filled.memory.bytes().data() + offset + i * sizeof(float), sizeof(float));
      ASSERT_EQ(found, tensor::to_float(expected[i])) << name << " " << i;
    }
  }
}

TEST(KvLayout, CountsTilesOfAllLayersAndHeads) {
  const checkpoint::ModelConfig config = config_of({});
  const Shard shard = plan_shard(config, 1, 3).value();
  for (const step::KvFormat format : {step::KvFormat::kBf16, step::KvFormat::kInt8}) {
    step::RankLimits limits;
    limits.kv_blocks = 10;
    limits.kv_format = format;
    const KvLayout layout = kv_layout(config, shard, limits);
    EXPECT_EQ(layout.bytes(), 2 * 10 * shard.attention.count * kernels::kv_tile(format, 32).bytes);
    EXPECT_EQ(kv_block_bytes(config, shard, format) * 10, layout.bytes());
    EXPECT_EQ(layout.block_stride, layout.layers * layout.layer_stride) << "a block is one range";
    EXPECT_EQ(layout.view().format, format);
    EXPECT_EQ(replica_block_bytes(config, 3, format).value(),
              kv_block_bytes(config, plan_shard(config, 0, 1).value(), format));
  }
  EXPECT_EQ(step::blocks_for(0), 0U);
  EXPECT_EQ(step::blocks_for(32), 1U);
  EXPECT_EQ(step::blocks_for(33), 2U);
}

MemoryRequest request_of(std::uint32_t replicas, std::uint32_t ranks, std::size_t available) {
  MemoryRequest request;
  request.replicas = replicas;
  request.ranks = ranks;
  request.limits = {512, 8, 128, 0};
  request.available_bytes = available;
  return request;
}

TEST(MemoryPlan, AddsUpToItsTotal) {
  const checkpoint::ModelConfig config = config_of({});
  const MemoryPlan plan = plan_memory(config, request_of(2, 3, std::size_t{1} << 30)).value();
  EXPECT_EQ(plan.limits.kv_blocks, 8U * 16U) << "all that eight sequences can use";
  std::size_t sum = 0;
  const auto rows = plan.rows(2);
  for (const MemoryPlan::Row& row : rows) {
    sum += row.what == "total" ? 0 : row.bytes;
  }
  EXPECT_EQ(sum, plan.total);
  EXPECT_EQ(rows.back().what, "total");
  EXPECT_EQ(rows.back().bytes, plan.total);
}

// What remains beside everything else is divided by the bytes of a block in the format that was
// asked for.
TEST(MemoryPlan, HoldsMoreBlocksOfCodes) {
  const checkpoint::ModelConfig config = config_of({});
  MemoryRequest request = request_of(1, 2, std::size_t{1} << 30);
  const MemoryPlan wide = plan_memory(config, request).value();
  const std::size_t block = replica_block_bytes(config, 2, step::KvFormat::kBf16).value();
  const std::size_t coded = replica_block_bytes(config, 2, step::KvFormat::kInt8).value();
  EXPECT_LT(coded * 10, block * 6);
  request.available_bytes = wide.total - 64 * block;
  EXPECT_NEAR(plan_memory(config, request).value().limits.kv_blocks, 64, 2);
  request.limits.kv_format = step::KvFormat::kInt8;
  const std::size_t room = 64 * block;
  EXPECT_NEAR(plan_memory(config, request).value().limits.kv_blocks,
              static_cast<double>(room) / static_cast<double>(coded),
              2);
}

TEST(MemoryPlan, TakesFewerKvBlocksWhenMemoryIsShort) {
  const checkpoint::ModelConfig config = config_of({});
  const MemoryPlan most = plan_memory(config, request_of(2, 2, std::size_t{1} << 30)).value();
  const std::size_t available = most.total - (std::size_t{2} << 20);
  const MemoryPlan less = plan_memory(config, request_of(2, 2, available)).value();
  EXPECT_LT(less.limits.kv_blocks, most.limits.kv_blocks);
  EXPECT_GE(less.limits.kv_blocks, 16U);
  EXPECT_LE(less.total, available);
}

TEST(MemoryPlan, PlansNoMoreBlocksThanThereAreNumbersFor) {
  checkpoint::ModelConfig config = config_of({});
  config.max_position = 1U << 20;
  MemoryRequest request = request_of(1, 1, std::size_t{1} << 46);
  request.limits.max_model_len = config.max_position;
  request.limits.max_num_seqs = 1024;
  EXPECT_EQ(plan_memory(config, request).value().limits.kv_blocks, step::kMaxKvBlocks);
}

TEST(MemoryPlan, DerivesALengthThatFitsWhenNoneIsNamed) {
  const checkpoint::ModelConfig config = config_of({});
  MemoryRequest request = request_of(1, 1, std::size_t{1} << 30);
  request.limits.max_model_len = 0;
  EXPECT_EQ(plan_memory(config, request).value().limits.max_model_len, config.max_position);
  request.limits.kv_blocks = 10;
  EXPECT_EQ(plan_memory(config, request).value().limits.max_model_len, 320U);
  request.limits.kv_blocks = 0;
  const std::size_t most = plan_memory(config, request_of(1, 1, std::size_t{1} << 30))->total;
  const std::size_t block =
      kv_block_bytes(config, plan_shard(config, 0, 1).value(), step::KvFormat::kBf16);
  request.available_bytes = most - (8 * 16 - 12) * block;  // twelve blocks are left
  const MemoryPlan less = plan_memory(config, request).value();
  EXPECT_GE(less.limits.max_model_len, 12U * 32U);
  EXPECT_LT(less.limits.max_model_len, config.max_position);
  EXPECT_LE(less.total, request.available_bytes);
  request.available_bytes = most - (8 * 16 - 3) * block;
  EXPECT_EQ(plan_memory(config, request).error().code(), Code::kResourceExhausted)
      << "a context of a hundred tokens is nobody's wish";
}

// What grows with the length is more than the KV blocks.
TEST(MemoryPlan, DerivesALengthThatFitsBesideNamedBlocks) {
  const checkpoint::ModelConfig config = config_of({});
  MemoryRequest request = request_of(1, 1, std::size_t{1} << 30);
  request.limits.kv_blocks = 16;
  request.available_bytes = plan_memory(config, request).value().total - 4096;
  request.limits.max_model_len = 0;
  const auto plan = plan_memory(config, request);
  ASSERT_TRUE(plan.has_value()) << plan.error().message();
  EXPECT_EQ(plan->limits.kv_blocks, 16U);
  EXPECT_GE(plan->limits.max_model_len, 256U);
  EXPECT_LT(plan->limits.max_model_len, 512U);
  EXPECT_LE(plan->total, request.available_bytes);
}

TEST(MemoryPlan, CountsTheResultRingOnce) {
  const checkpoint::ModelConfig config = config_of({});
  const Shard shard = plan_shard(config, 0, 1).value();
  EXPECT_EQ(rank_memory(config, shard, {512, 64, 128, 16})->result_ring,
            (step::result_ring_bytes(64) + 4095) / 4096 * 4096);
}

// What a thread has of its own is most of the heap where there are many.
TEST(MemoryPlan, CountsWhatEachThreadNeeds) {
  const checkpoint::ModelConfig config = config_of({});
  const Shard shard = plan_shard(config, 0, 1).value();
  const auto heap = [&](std::uint32_t threads) {
    return rank_memory(config, shard, {512, 1, 8, 16}, threads)->heap;
  };
  EXPECT_GE(heap(64) - heap(2), 62 * config.vocab * sizeof(std::uint32_t)) << "counts of tokens";
  MemoryRequest request = request_of(2, 2, std::size_t{1} << 30);
  request.limits.kv_blocks = 16;
  for (const auto& [cpus, threads] :
       {std::pair(1U, 1U), std::pair(4U, 1U), std::pair(5U, 2U), std::pair(64U, 16U)}) {
    request.cpus = cpus;
    const MemoryPlan plan = plan_memory(config, request).value();
    const Shard first = plan_shard(config, 0, 2).value();
    EXPECT_EQ(plan.ranks.front().heap, rank_memory(config, first, plan.limits, threads)->heap)
        << cpus;
  }
}

TEST(MemoryPlan, LeavesRoomUnlessTheCacheIsNamed) {
  const std::size_t gigabyte = std::size_t{1} << 30;
  const checkpoint::ModelConfig config = config_of({});
  const std::size_t weights = layout_of(config).bytes;
  const MemoryRequest derived = request_of(1, 1, 0);
  EXPECT_LT(memory_to_plan(gigabyte, config, derived), weights + (gigabyte - weights) * 6 / 10);
  EXPECT_LT(memory_to_plan(gigabyte, config, request_of(8, 4, 0)),
            memory_to_plan(gigabyte, config, derived));
  EXPECT_EQ(memory_to_plan(1000, config, derived), 0U);
  EXPECT_GT(memory_to_plan(
                weights * 5 / 4 + derived.processes() * (std::size_t{16} << 20), config, derived),
            weights * 11 / 10)
      << "weights that take most of the memory may do so";
  MemoryRequest named = derived;
  const std::size_t processes = derived.processes() * (std::size_t{16} << 20);
  named.limits.kv_blocks = 5;
  EXPECT_EQ(memory_to_plan(gigabyte, config, named), gigabyte - processes);
  EXPECT_EQ(memory_to_plan(1000, config, named), 0U);
  named = derived;
  named.kv_memory_bytes = 1;
  EXPECT_EQ(memory_to_plan(gigabyte, config, named), gigabyte - processes);
}

TEST(MemoryPlan, TakesTheBlocksThatNamedBytesPayFor) {
  const checkpoint::ModelConfig config = config_of({});
  const std::size_t block = replica_block_bytes(config, 2, step::KvFormat::kBf16).value();
  MemoryRequest request = request_of(2, 2, std::size_t{1} << 30);
  request.kv_memory_bytes = 41 * block - 1;
  EXPECT_EQ(plan_memory(config, request).value().limits.kv_blocks, 40U);
  request.kv_memory_bytes = block - 1;
  EXPECT_EQ(plan_memory(config, request).error().code(), Code::kInvalidArgument);
  request.kv_memory_bytes = (std::size_t{1} << 29) + 1;
  EXPECT_EQ(plan_memory(config, request).error().code(), Code::kResourceExhausted);
}

TEST(MemoryPlan, NamesTheLargestSettingThatFits) {
  const checkpoint::ModelConfig config = config_of({});
  MemoryRequest request = request_of(1, 1, std::size_t{1} << 30);
  request.limits.kv_blocks = 16;
  const std::size_t least = plan_memory(config, request).value().total;
  request.limits.kv_blocks = 0;
  request.available_bytes = least - 4096;
  const auto plan = plan_memory(config, request);
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code(), Code::kResourceExhausted);
  const std::string& message = plan.error().message();
  const std::size_t at = message.find("--max-num-batched-tokens ");
  ASSERT_NE(at, std::string::npos) << message;
  const auto fits = static_cast<std::uint32_t>(std::stoul(message.substr(at + 25)));
  request.limits.max_num_batched_tokens = fits;
  EXPECT_TRUE(plan_memory(config, request).has_value()) << message;
  request.limits.max_num_batched_tokens = fits + 1;
  EXPECT_FALSE(plan_memory(config, request).has_value()) << message;
}

// What the refusal of `request` says of `flag`; 0 = nothing.
std::uint64_t advised(const checkpoint::ModelConfig& config,
                      const MemoryRequest& request,
                      const std::string& flag) {
  const auto plan = plan_memory(config, request);
  EXPECT_FALSE(plan.has_value());
  const std::string message = plan ? "" : plan.error().message();
  const std::size_t at = message.find(flag + " ");
  return at == std::string::npos ? 0 : std::stoull(message.substr(at + flag.size() + 1));
}

// Whoever follows one part of the advice, and changes nothing else, is served.
TEST(MemoryPlan, AdvisesWhatFitsBesideNamedBlocks) {
  const checkpoint::ModelConfig config = config_of({});
  const std::size_t block = replica_block_bytes(config, 1, step::KvFormat::kBf16).value();
  for (const std::uint32_t length : {0U, 384U}) {
    for (const bool in_bytes : {false, true}) {
      MemoryRequest request = request_of(1, 1, std::size_t{1} << 30);
      request.limits.max_num_batched_tokens = 512;  // fewer leave more than the KV of a sequence
      request.limits.max_model_len = length == 0 ? 256 : length;
      request.limits.kv_blocks = 20;
      request.available_bytes = plan_memory(config, request).value().total - 4096;
      request.limits.max_model_len = length;
      const std::string flag = in_bytes ? "--kv-cache-memory-bytes" : "--num-kv-blocks";
      const std::string other = in_bytes ? "--num-kv-blocks" : "--kv-cache-memory-bytes";
      if (in_bytes) {
        request.limits.kv_blocks = 0;
        request.kv_memory_bytes = 20 * block + 5;
      }
      EXPECT_EQ(advised(config, request, other), 0U);
      MemoryRequest smaller = request;
      if (in_bytes) {
        smaller.kv_memory_bytes = advised(config, request, flag);
      } else {
        smaller.limits.kv_blocks = static_cast<std::uint32_t>(advised(config, request, flag));
      }
      EXPECT_TRUE(plan_memory(config, smaller).has_value()) << flag << " " << length;
      smaller = request;
      smaller.limits.max_num_batched_tokens =
          static_cast<std::uint32_t>(advised(config, request, "--max-num-batched-tokens"));
      EXPECT_TRUE(plan_memory(config, smaller).has_value()) << flag << " " << length;
    }
  }
}

TEST(MemoryPlan, AdvisesNothingThatAServerRefuses) {
  const checkpoint::ModelConfig config = config_of({});
  MemoryRequest request = request_of(1, 1, std::size_t{1} << 30);
  request.limits = {256, 64, 64, 8};
  request.available_bytes = plan_memory(config, request).value().total;
  request.limits.max_num_batched_tokens = 512;
  EXPECT_GE(advised(config, request, "--max-num-batched-tokens"), 64U);
  MemoryRequest fewer = request;  // of which a server says that sequences have no rows
  fewer.limits.max_num_batched_tokens = 32;
  request.available_bytes = plan_memory(config, fewer).value().total;
  EXPECT_EQ(advised(config, request, "--max-num-batched-tokens"), 0U);
}

TEST(MemoryPlan, AdvisesALengthWithTheBlocksThatItNeeds) {
  const checkpoint::ModelConfig config = config_of({});
  MemoryRequest request = request_of(1, 1, std::size_t{1} << 30);
  request.limits = {256, 1, 1, 8};
  request.available_bytes = plan_memory(config, request).value().total;
  request.limits.max_model_len = 512;
  request.limits.kv_blocks = 64;
  MemoryRequest smaller = request;
  smaller.limits.max_model_len =
      static_cast<std::uint32_t>(advised(config, request, "--max-model-len"));
  smaller.limits.kv_blocks =
      static_cast<std::uint32_t>(advised(config, request, "--num-kv-blocks"));
  EXPECT_GE(smaller.limits.max_model_len, 256U);
  EXPECT_EQ(smaller.limits.kv_blocks, step::blocks_for(smaller.limits.max_model_len));
  EXPECT_TRUE(plan_memory(config, smaller).has_value());
}

// The model's own length, which nobody asked for, makes nothing impossible.
TEST(MemoryPlan, JudgesSettingsBesideTheLeastLengthWhenNoneIsNamed) {
  const checkpoint::ModelConfig config = config_of({});
  MemoryRequest request = request_of(1, 1, std::size_t{1} << 30);
  request.limits.max_num_batched_tokens = 16;  // all that fewer leave is less than the KV of 512
  request.limits.max_model_len = 256;
  request.limits.kv_blocks = 8;
  const std::size_t least = plan_memory(config, request).value().total;
  request.limits.kv_blocks = 0;
  request.limits.max_model_len = 0;
  request.available_bytes = least - 4096;
  const auto plan = plan_memory(config, request);
  ASSERT_FALSE(plan.has_value());
  const std::string& message = plan.error().message();
  const std::size_t at = message.find("--max-num-batched-tokens ");
  ASSERT_NE(at, std::string::npos) << message;
  request.limits.max_num_batched_tokens =
      static_cast<std::uint32_t>(std::stoul(message.substr(at + 25)));
  EXPECT_TRUE(plan_memory(config, request).has_value()) << message;
}

TEST(MemoryPlan, RefusesWhatCannotBe) {
  const checkpoint::ModelConfig config = config_of({});
  const auto refused = [&](step::RankLimits limits, const char* part) {
    MemoryRequest request = request_of(1, 1, std::size_t{1} << 30);
    request.limits = limits;
    const auto plan = plan_memory(config, request);
    ASSERT_FALSE(plan.has_value());
    EXPECT_EQ(plan.error().code(), Code::kInvalidArgument);
    EXPECT_NE(plan.error().message().find(part), std::string::npos) << plan.error().message();
  };
  refused({513, 8, 128, 0}, "max_model_len: expected from 1 to 512, found 513");
  refused({512, 0, 128, 0}, "max_num_seqs");
  refused({512, 8, 0, 0}, "max_num_batched_tokens");
  refused({512, 8, 128, 15}, "--num-kv-blocks: expected at least 16");
  EXPECT_FALSE(plan_memory(config, request_of(1, 5, std::size_t{1} << 30)).has_value());
  EXPECT_EQ(plan_memory(config, request_of(1, 1, 1000)).error().code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace phalanx::model
