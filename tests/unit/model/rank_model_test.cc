// SPDX-License-Identifier: Apache-2.0
#include "phalanx/model/rank_model.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include <gtest/gtest.h>

#include "phalanx/model/kv_layout.h"

#include "test_group.h"
#include "unit/checkpoint/test_checkpoint.h"

namespace {

std::atomic<std::uint64_t> allocations{0};

std::uint64_t count_allocations() {
  return allocations.load(std::memory_order_relaxed);
}

void* counted(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) {
    std::abort();
  }
  return memory;
}

}  // namespace

// The whole test program counts its allocations, to see that a step makes none.
void* operator new(std::size_t bytes) {
  return counted(bytes);
}
void* operator new[](std::size_t bytes) {
  return counted(bytes);
}
// A sanitizer has these of its own, which would not fit the deletes below.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace phalanx::model {
namespace {

const TestWeights& weights() {
  static const std::unique_ptr<checkpoint::MemorySource> files = checkpoint::random_checkpoint({});
  static const TestWeights packed(*files);
  return packed;
}

const std::vector<TokenId> kPrompt = {5, 9, 200, 33, 7, 7, 120, 64};
const std::vector<std::uint32_t> kBlocks = {3, 1};

SequenceSpec sampled_spec(std::uint32_t slot, std::uint64_t sequence) {
  SequenceSpec spec;
  spec.slot = slot;
  spec.sequence = sequence;
  spec.tokens = kPrompt;
  spec.prompt_tokens = static_cast<std::uint32_t>(kPrompt.size());
  spec.sampling.top_logprobs = 3;
  spec.sampling.top_p = 0.9F;
  spec.sampling.top_k = 40;
  spec.sampling.seed = 4;
  return spec;
}

StepItem prefill(std::uint32_t slot, std::uint64_t sequence) {
  return {slot, sequence, 0, static_cast<std::uint32_t>(kPrompt.size()), true, kBlocks};
}

std::vector<std::byte> copy_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

TEST(RankModel, GivesTheSameKvAndTokensWhenAStepRunsTwice) {
  GroupOptions options;
  options.ranks = 2;
  TestGroup group(weights(), options);
  const SequenceSpec spec = sampled_spec(2, 11);
  group.attach({&spec, 1});
  const StepItem item = prefill(2, 11);
  const auto first = group.step({&item, 1});
  ASSERT_TRUE(first.has_value());
  const std::vector<std::byte> kv = copy_of(group.kv(1));
  const auto second = group.step({&item, 1});
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(*second, *first);
  EXPECT_EQ(copy_of(group.kv(1)), kv);
}

TEST(RankModel, ReadsTheNextInputFromTheSequenceTable) {
  TestGroup group(weights(), {});
  const SequenceSpec spec = sampled_spec(0, 1);
  group.attach({&spec, 1});
  const StepItem first = prefill(0, 1);
  const auto sampled = group.step({&first, 1});
  ASSERT_TRUE(sampled.has_value());
  const StepItem decode{0, 1, 8, 1, true, kBlocks};
  const auto next = group.step({&decode, 1});
  ASSERT_TRUE(next.has_value());

  std::vector<TokenId> longer = kPrompt;
  longer.push_back((*sampled)[0].token);
  SequenceSpec known = sampled_spec(0, 1);
  known.tokens = longer;
  group.attach({&known, 1});
  const StepItem again{0, 1, 0, 9, true, kBlocks};
  const auto recomputed = group.step({&again, 1});
  ASSERT_TRUE(recomputed.has_value());
  EXPECT_EQ(*recomputed, *next);
}

// A penalty so small makes logits infinite.
TEST(RankModel, EndsOneRowWithAFaultAndTouchesNoOther) {
  for (const std::uint32_t ranks : {1U, 2U}) {
    GroupOptions options;
    options.ranks = ranks;
    TestGroup group(weights(), options);
    const std::vector<std::uint32_t> other_blocks = {0, 2};
    const std::vector<SequenceSpec> alone = {sampled_spec(0, 1)};
    const std::vector<StepItem> alone_items = {prefill(0, 1)};
    group.attach(alone);
    const auto expected = group.step(alone_items);
    ASSERT_TRUE(expected.has_value());

    std::vector<SequenceSpec> both = {sampled_spec(0, 1), sampled_spec(1, 2)};
    both[1].sampling.repetition_penalty = 1.2e-38F;
    std::vector<StepItem> items = {prefill(0, 1), prefill(1, 2)};
    items[1].blocks = other_blocks;
    group.attach(both);
    const auto result = group.step(items);
    ASSERT_TRUE(result.has_value()) << result.error().to_string();
    EXPECT_EQ((*result)[0], (*expected)[0]);
    EXPECT_EQ((*result)[1].token, -1);
    EXPECT_EQ((*result)[1].fault, RowFault::kSampling);

    // The faulty one has left; the other goes on.
    const StepItem decode{0, 1, 8, 1, true, kBlocks};
    EXPECT_TRUE(group.step({&decode, 1}).has_value());
  }
}

TEST(RankModel, PreparesAndAllocatesNothingInSteps) {
  GroupOptions options;
  options.ranks = 2;
  options.allocation_counter = count_allocations;
  TestGroup group(weights(), options);
  SequenceSpec spec = sampled_spec(0, 1);
  spec.sampling.repetition_penalty = 1.2F;
  const StepItem item = prefill(0, 1);
  group.attach({&spec, 1});
  ASSERT_TRUE(group.step({&item, 1}).has_value());
  const std::uint64_t preparations = group.model(0).counters().preparations;
  EXPECT_GT(preparations, 0U);
  // One rank at a time would wait for the other; both count what the process allocates meanwhile.
  std::vector<std::uint64_t> grown(2);
  const std::vector<std::uint32_t> slots = {0};
  const StepItem decode{0, 1, 8, 1, true, kBlocks};
  for (int request = 0; request < 3; ++request) {
    group.update(slots, {&spec, 1});
    for (const StepItem& next : {item, decode}) {
      std::vector<std::vector<step::StepItem>> given;
      given.push_back(group.begin(0, {&next, 1}).value());
      given.push_back(group.begin(1, {&next, 1}).value());
      std::vector<SampledToken> sampled(2);
      group.on_ranks([&](std::uint32_t rank, RankModel& model) {
        const std::uint64_t before = count_allocations();
        const auto result = model.step(given[rank]);
        grown[rank] += result ? count_allocations() - before : 1000;
        sampled[rank] = result ? (*result)[0] : SampledToken();
      });
      group.settle(0, given[0], {&sampled[0], 1});
      group.settle(1, given[1], {&sampled[1], 1});
    }
  }
  EXPECT_EQ(grown[0], 0U);
  EXPECT_EQ(grown[1], 0U);
  EXPECT_EQ(group.model(0).counters().preparations, preparations);
}

TEST(RankModel, RefusesAStepWithoutAGroup) {
  TestGroup group(weights(), {});
  const SequenceSpec spec = sampled_spec(0, 1);
  group.attach({&spec, 1});
  ASSERT_TRUE(group.model(0).join(nullptr).has_value());
  const StepItem item = prefill(0, 1);
  const auto result = group.step({&item, 1});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), Code::kFailedPrecondition);
}

TEST(RankModel, AnswersAbortedWhenTheTeamIsStopped) {
  GroupOptions options;
  options.ranks = 2;
  TestGroup group(weights(), options);
  const SequenceSpec spec = sampled_spec(0, 1);
  group.attach({&spec, 1});
  const StepItem item = prefill(0, 1);
  // Rank 0 stops between tiles; rank 1 waits for it in a collective until the abort word is up.
  group.stop(0) = true;
  std::vector<Code> codes(2);
  group.on_ranks([&](std::uint32_t rank, RankModel&) {
    const auto result = group.step_on(rank, {&item, 1});
    codes[rank] = result ? Code::kCancelled : result.error().code();
    if (rank == 0) {
      group.communicator(0).abort();
    }
  });
  EXPECT_EQ(codes[0], Code::kAborted);
  EXPECT_EQ(codes[1], Code::kAborted);
}

TEST(RankModel, GivesNoTokenToARowWhoseLogitsAreNotFinite) {
  TestGroup group(weights(), {});
  const SequenceSpec spec = sampled_spec(0, 1);
  group.attach({&spec, 1});
  // A gain that is not a number spreads to every logit.
  const std::size_t gain = layout_of(weights().config()).final_gain;
  float saved = 0;
  std::byte* place = weights().memory().data() + gain;
  std::memcpy(&saved, place, sizeof(saved));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(place, &nan, sizeof(nan));
  const StepItem item = prefill(0, 1);
  const auto result = group.step({&item, 1});
  std::memcpy(place, &saved, sizeof(saved));
  ASSERT_TRUE(result.has_value()) << result.error().to_string();
  EXPECT_EQ((*result)[0].token, -1);
  EXPECT_EQ((*result)[0].fault, RowFault::kLogits);
  // No token, so no input at its position either.
  const StepItem decode{0, 1, 8, 1, true, kBlocks};
  const auto next = group.step({&decode, 1});
  ASSERT_FALSE(next.has_value());
  EXPECT_EQ(next.error().code(), Code::kFailedPrecondition);
}

TEST(RankModel, FailsAStepThatWouldWriteANonFiniteKey) {
  TestGroup group(weights(), {});
  const SequenceSpec spec = sampled_spec(0, 1);
  group.attach({&spec, 1});
  const std::size_t gain = layout_of(weights().config()).layers[1].k_gain;
  std::byte* place = weights().memory().data() + gain;
  float saved = 0;
  std::memcpy(&saved, place, sizeof(saved));
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(place, &infinity, sizeof(infinity));
  StepItem item = prefill(0, 1);
  item.sample = false;
  const auto result = group.step({&item, 1});
  std::memcpy(place, &saved, sizeof(saved));
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), Code::kDataLoss);
}

// What a block holds never reaches beyond its own range, so memory can come block by block.
TEST(RankModel, WritesOnlyTheBlocksOfItsItems) {
  TestGroup group(weights(), {});
  const SequenceSpec spec = sampled_spec(0, 1);
  group.attach({&spec, 1});
  const StepItem item = prefill(0, 1);
  ASSERT_TRUE(group.step({&item, 1}).has_value());
  const checkpoint::ModelConfig& config = weights().config();
  const KvLayout layout =
      kv_layout(config, plan_shard(config, 0, 1).value(), group.options().limits);
  for (std::uint32_t block = 0; block < layout.blocks; ++block) {
    const auto memory = group.kv(0).subspan(block * layout.block_stride, layout.block_stride);
    const bool written = std::any_of(
        memory.begin(), memory.end(), [](std::byte byte) { return byte != std::byte{0}; });
    EXPECT_EQ(written, block == kBlocks[0]) << "block " << block;
  }
}

// A prompt of four segments in chunks and some tokens after it, beside a short sequence.
std::vector<SampledToken> tokens_of_long_context(const TestWeights& packed, std::uint32_t threads) {
  GroupOptions options;
  options.ranks = 2;
  options.threads = threads;
  options.isa = kernels::available_isas().back();
  options.limits = {4096, 2, 700, 130};
  TestGroup group(packed, options);
  std::vector<TokenId> prompt(3100);
  std::vector<std::uint32_t> blocks(128);
  for (std::uint32_t i = 0; i < prompt.size(); ++i) {
    prompt[i] = static_cast<TokenId>(i * 7919 % 250);
  }
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = 127 - i;
  }
  SequenceSpec specs[2] = {sampled_spec(0, 1), sampled_spec(1, 2)};
  specs[0].tokens = prompt;
  specs[0].prompt_tokens = 3100;
  group.attach(specs);
  std::vector<SampledToken> all;
  const auto step = [&](std::span<const StepItem> items) {
    const auto sampled = group.step(items);
    ASSERT_TRUE(sampled.has_value());
    all.insert(all.end(), sampled->begin(), sampled->end());
  };
  for (std::uint32_t start = 0; start < 3100; start += 620) {
    const StepItem chunk{0, 1, start, 620, start + 620 == 3100, blocks};
    step({&chunk, 1});
  }
  const std::vector<std::uint32_t> short_blocks = {128, 129};
  const StepItem other{1, 2, 0, 8, true, short_blocks};
  step({&other, 1});
  for (std::uint32_t i = 0; i < 4; ++i) {
    const StepItem items[2] = {{0, 1, 3100 + i, 1, true, blocks},
                               {1, 2, 8 + i, 1, true, short_blocks}};
    step(items);
  }
  return all;
}

// With so many threads contexts are divided.
TEST(RankModel, GivesTheSameTokensWithAnyNumberOfThreads) {
  checkpoint::TestShape shape;
  shape.max_position = 4096;
  const std::unique_ptr<checkpoint::MemorySource> files = checkpoint::random_checkpoint(shape);
  for (const kernels::WeightFormat format :
       {kernels::WeightFormat::kBf16, kernels::WeightFormat::kInt8}) {
    const TestWeights packed(*files, 2, {format, format});
    const std::vector<SampledToken> alone = tokens_of_long_context(packed, 1);
    EXPECT_EQ(tokens_of_long_context(packed, 12), alone);
  }
}

TEST(RankModel, DerivesStagesFromTheTags) {
  TestGroup group(weights(), {});
  const Program& program = group.model(0).program();
  bool found = false;
  for (const Stage& stage : program.stages()) {
    found = found || stage.name.ends_with("L0.q + L0.k + L0.v");
    EXPECT_TRUE(!stage.collective || stage.count == 1) << stage.name;
  }
  EXPECT_TRUE(found) << "the projections of query, key and value share a stage";
}

TEST(RankModel, FingerprintsWeightsArithmeticAndTheKvCache) {
  TestGroup one(weights(), {});
  GroupOptions two_ranks;
  two_ranks.ranks = 2;
  TestGroup two(weights(), two_ranks);
  EXPECT_EQ(one.model(0).numerics_fingerprint(), two.model(1).numerics_fingerprint());
  checkpoint::TestShape shape;
  shape.seed = 2;
  const auto files = checkpoint::random_checkpoint(shape);
  const TestWeights others(*files);
  TestGroup other(others, {});
  EXPECT_NE(other.model(0).numerics_fingerprint(), one.model(0).numerics_fingerprint());
  GroupOptions of_codes;
  of_codes.limits.kv_format = step::KvFormat::kInt8;
  TestGroup coded(weights(), of_codes);
  EXPECT_NE(coded.model(0).numerics_fingerprint(), one.model(0).numerics_fingerprint());
}

TEST(RankModel, RefusesRegionsThatAreTooSmall) {
  auto team = kernels::ThreadTeam::create_unpinned(1);
  ASSERT_TRUE(team.has_value());
  RankModelOptions options;
  options.config = weights().config();
  options.shard = plan_shard(options.config, 0, 1).value();
  options.limits = {256, 8, 64, 128};
  const RankMemory memory = rank_memory(options.config, options.shard, options.limits).value();
  tensor::AlignedBuffer kv(memory.kv / 2);
  tensor::AlignedBuffer scratch(memory.scratch);
  tensor::AlignedBuffer table_memory(memory.sequence_table);
  const step::SequenceTable table =
      step::SequenceTable::map(table_memory.bytes(), options.limits, options.config.vocab).value();
  const RankRegions regions{weights().memory(), kv.bytes(), scratch.bytes()};
  const auto model = RankModel::create(options, regions, table, **team);
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().code(), Code::kInvalidArgument);
  EXPECT_NE(model.error().message().find("kv"), std::string::npos);
}

}  // namespace
}  // namespace phalanx::model
