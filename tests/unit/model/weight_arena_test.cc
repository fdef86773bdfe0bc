// SPDX-License-Identifier: Apache-2.0
// Where each weight lies in the arena, and which arenas are opened.
#include "phalanx/model/weight_arena.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/kernels/weight.h"
#include "phalanx/model/shard_plan.h"
#include "phalanx/tensor/arena.h"

#include "arena_header.h"
#include "unit/checkpoint/test_checkpoint.h"

namespace phalanx::model {
namespace {

struct Filled {
  explicit Filled(const checkpoint::TestShape& shape,
                  std::uint32_t threads = 1,
                  std::uint32_t ranks = 1) {
    files = checkpoint::random_checkpoint(shape);
    checkpoint =
        std::make_unique<checkpoint::Checkpoint>(checkpoint::Checkpoint::open(*files).value());
    memory = tensor::AlignedBuffer(layout_of(checkpoint->config()).bytes, kArenaAlignment);
    hash = fill_arena(*checkpoint,
                      checkpoint->config(),
                      memory.bytes(),
                      {threads,
                       ranks,
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

// Of one leaf the first 64 columns, and the bytes to the next ones.
struct LeafAt {
  std::string name;
  std::size_t first;
  std::size_t stride;
  std::size_t k;
  std::size_t first_k;
};

void expect_leaf(const Filled& filled, const LeafAt& leaf) {
  for (const std::size_t column : {0U, 63U, 64U, 140U, 159U}) {
    for (const std::size_t k : {std::size_t{0}, leaf.k - 1}) {
      tensor::Bf16 found;
      std::vector<tensor::Bf16> expected(1);
      std::memcpy(&found,
                  filled.memory.bytes().data() + leaf.first + column / 64 * leaf.stride +
                      2 * kernels::packed_index(column % 64, k, leaf.k),
                  2);
      filled.checkpoint->weight("model.layers.1." + leaf.name)
          .read_bf16(column, leaf.first_k + k, expected);
      EXPECT_EQ(found, expected[0]) << leaf.name << " " << column << " " << k;
    }
  }
}

// 160 columns are two groups of 64 and half of one, which takes as much room. Of 4 KV heads the
// last of three ranks has two, of 19 blocks in 16 runs 8 in six.
TEST(WeightArena, PutsTheLeavesOfARankTogetherByGroupsOfColumns) {
  checkpoint::TestShape shape;
  shape.hidden = 160;
  const std::size_t head = std::size_t{64} * 64 * sizeof(tensor::Bf16);  // 2 heads of 32
  const std::size_t block = std::size_t{64} * 32 * sizeof(tensor::Bf16);
  const std::size_t groups = 3;
  for (const std::uint32_t ranks : {1U, 3U}) {
    const Filled filled(shape, 1, ranks);
    const checkpoint::ModelConfig& config = filled.checkpoint->config();
    const LayerOffsets layer = layout_of(config).layers[1];
    const std::size_t heads_before = ranks == 1 ? 0 : 2;
    const LeafAt last_head{"self_attn.o_proj.weight",
                           layer.o + groups * heads_before * head + (3 - heads_before) * head,
                           (4 - heads_before) * head,
                           64,
                           3 * 64};
    expect_leaf(filled, last_head);
    const model::Run last = units_of(config).mlp_blocks_of(15);
    ASSERT_EQ(last.end(), 19U);
    const std::size_t blocks_before = ranks == 1 ? 0 : units_of(config).mlp_blocks_of(10).first;
    const LeafAt last_run{
        "mlp.down_proj.weight",
        layer.down + groups * blocks_before * block + (last.first - blocks_before) * block,
        (19 - blocks_before) * block,
        std::size_t{last.count} * 32,
        std::size_t{last.first} * 32};
    expect_leaf(filled, last_run);
    EXPECT_GE(layout_of(config).bytes, layer.down + groups * 19 * block);
  }
}

TEST(WeightArena, SaysForWhichRanksItIsLaidOut) {
  const Filled one({});
  const Filled three({}, 1, 3);
  const checkpoint::ModelConfig& config = three.checkpoint->config();
  EXPECT_EQ(one.hash, three.hash) << "the same weights";
  EXPECT_EQ(open_arena(one.memory.bytes(), config)->layout.ranks, 1U);
  EXPECT_EQ(open_arena(three.memory.bytes(), config)->layout.ranks, 3U);
  EXPECT_NE(open_arena(one.memory.bytes(), config)->key,
            open_arena(three.memory.bytes(), config)->key);
  const auto fill_for = [&](std::uint32_t ranks) {
    return fill_arena(*three.checkpoint, config, three.memory.bytes(), {1, ranks, {}});
  };
  EXPECT_EQ(fill_for(0).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(fill_for(5).error().code(), Code::kInvalidArgument) << "4 KV heads";
  for (const std::uint32_t ranks : {0U, 5U}) {
    ArenaHeader header;
    std::memcpy(&header, one.memory.bytes().data(), sizeof(header));
    header.ranks = ranks;
    std::memcpy(one.memory.bytes().data(), &header, sizeof(header));
    EXPECT_EQ(open_arena(one.memory.bytes(), config).error().code(), Code::kDataLoss) << ranks;
  }
}

TEST(WeightArena, OpensOnlyWhatItWasFilledFor) {
  const Filled filled({});
  const checkpoint::ModelConfig& config = filled.checkpoint->config();
  const std::uint64_t key = arena_key(config, 1, filled.checkpoint->structure_hash());
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

TEST(WeightArena, SaysWhereMemoryRunsOut) {
  checkpoint::MemorySource files;
  files.put("config.json", checkpoint::config_json({}));
  files.put("model.safetensors", checkpoint::write_safetensors(checkpoint::random_tensors({})));
  const checkpoint::Checkpoint checkpoint = checkpoint::Checkpoint::open(files).value();
  const tensor::AlignedBuffer memory(layout_of(checkpoint.config()).bytes, kArenaAlignment);
  FillOptions options;
  options.threads = 3;
  options.progress = [](std::uint64_t, std::uint64_t) { throw std::bad_alloc(); };
  const auto filled = fill_arena(checkpoint, checkpoint.config(), memory.bytes(), options);
  ASSERT_FALSE(filled.has_value());
  EXPECT_EQ(filled.error().code(), Code::kResourceExhausted);
  EXPECT_NE(filled.error().message().find("out of memory"), std::string::npos);
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

}  // namespace
}  // namespace phalanx::model
