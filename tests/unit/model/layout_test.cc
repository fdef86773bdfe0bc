// SPDX-License-Identifier: Apache-2.0
// Shards, KV and the memory plan.
#include "phalanx/kernels/layout.h"

#include <algorithm>
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
