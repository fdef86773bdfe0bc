// SPDX-License-Identifier: Apache-2.0
// The forward pass over weights of integers: the same bits however it is cut, and near that of bf16.
#include <array>
#include <cmath>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "test_group.h"
#include "unit/checkpoint/test_checkpoint.h"
#include "unit/checkpoint/test_gguf.h"

namespace phalanx::model {
namespace {

using checkpoint::WeightFormats;
using kernels::WeightFormat;

std::vector<TokenId> random_tokens(std::size_t count, std::uint32_t vocab, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>(random() % vocab));
  }
  return tokens;
}

std::vector<TestRequest> requests_for(std::uint32_t vocab) {
  std::vector<TestRequest> requests;
  for (std::uint32_t i = 0; i < 6; ++i) {
    TestRequest request;
    request.prompt = random_tokens(1 + i * 23 % 90, vocab, 200 + i);
    request.produce = 4;
    request.sampling.top_logprobs = 5;
    request.sampling.seed = 5 + i;
    request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.8F;
    requests.push_back(std::move(request));
  }
  return requests;
}

struct Cut {
  std::uint32_t ranks;
  std::uint32_t threads;
  kernels::Isa isa;
  GenerateOptions generate;
};

// One by one on one rank of `ref`, and then every other way.
std::vector<Cut> cuts(std::uint32_t most_ranks) {
  std::vector<Cut> result = {{1, 1, kernels::Isa::kRef, {64, 1, false}}};
  for (const kernels::Isa isa : kernels::available_isas()) {
    result.push_back({1, 2, isa, {64, 6, false}});
    result.push_back({most_ranks, 1, isa, {7, 3, true}});
  }
  result.push_back({2, 2, kernels::available_isas().back(), {33, 4, false}});
  return result;
}

checkpoint::TestShape uneven_shape() {
  checkpoint::TestShape shape;
  shape.heads = 3;
  shape.kv_heads = 3;
  shape.head_dim = 16;  // a leaf of 16 inputs: half of a block
  shape.intermediate = 160;
  shape.vocab = 97;
  shape.tied = false;
  return shape;
}

// The same bits on every instruction set, however the work is cut.
void expect_same_bits(const TestWeights& weights,
                      step::KvFormat kv_format = step::KvFormat::kBf16) {
  const std::vector<TestRequest> requests = requests_for(weights.config().vocab);
  std::vector<std::vector<SampledToken>> expected;
  for (const Cut& cut : cuts(3)) {
    GroupOptions options;
    options.ranks = cut.ranks;
    options.threads = cut.threads;
    options.isa = cut.isa;
    options.limits.kv_format = kv_format;
    TestGroup group(weights, options);
    const auto streams = generate(group, requests, cut.generate);
    if (expected.empty()) {
      expected = streams;
    }
    EXPECT_EQ(streams, expected) << cut.ranks << " ranks, " << cut.threads << " threads, "
                                 << kernels::isa_name(cut.isa);
  }
}

class EachFormat : public ::testing::TestWithParam<WeightFormat> {};

TEST_P(EachFormat, GivesTheSameBitsHoweverItIsCut) {
  for (const checkpoint::TestShape& shape : {checkpoint::TestShape(), uneven_shape()}) {
    const auto files = checkpoint::random_checkpoint(shape);
    for (const std::uint32_t ranks : {1U, 3U}) {  // that the weights are laid out for
      expect_same_bits(TestWeights(*files, 2, {GetParam(), GetParam()}, ranks));
    }
  }
}

// Logits at every position of one text.
std::vector<float> logits_of(const TestWeights& weights,
                             std::span<const TokenId> tokens,
                             step::KvFormat kv_format = step::KvFormat::kBf16) {
  GroupOptions options;
  options.limits.kv_format = kv_format;
  TestGroup group(weights, options);
  group.keep_logits();
  SequenceSpec spec;
  spec.sequence = 1;
  spec.tokens = tokens;
  spec.prompt_tokens = 1;
  group.attach({&spec, 1});
  const std::vector<std::uint32_t> blocks = {4, 2, 9};
  const std::vector<std::uint32_t> slots = {0};
  std::vector<float> all;
  for (std::uint32_t position = 0; position + 1 < tokens.size(); ++position) {
    const StepItem item{0, 1, position, 1, true, blocks};
    EXPECT_TRUE(group.step({&item, 1}).has_value());
    group.update(slots, {&spec, 1});
    const auto logits = group.logits(1)[0];
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

double relative_distance(std::span<const float> found, std::span<const float> expected) {
  double errors = 0;
  double squares = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double error = double{found[i]} - double{expected[i]};
    errors += error * error;
    squares += double{expected[i]} * double{expected[i]};
  }
  return std::sqrt(errors / squares);
}

// Logits of the last token of a prompt that is computed in chunks.
std::vector<float> last_logits(const TestWeights& weights,
                               GroupOptions options,
                               std::span<const TokenId> tokens,
                               std::uint32_t chunk) {
  options.limits.max_num_batched_tokens = 256;
  TestGroup group(weights, options);
  group.keep_logits();
  SequenceSpec spec;
  spec.sequence = 1;
  spec.tokens = tokens;
  spec.prompt_tokens = static_cast<std::uint32_t>(tokens.size());
  group.attach({&spec, 1});
  const std::vector<std::uint32_t> blocks = {4, 2, 9, 1, 7};
  for (std::uint32_t start = 0; start < tokens.size(); start += chunk) {
    const auto count = std::min<std::uint32_t>(chunk, spec.prompt_tokens - start);
    const StepItem item{0, 1, start, count, start + count == tokens.size(), blocks};
    EXPECT_TRUE(group.step({&item, 1}).has_value());
  }
  return group.logits(1)[0];
}

// With many rows gates and ups are those of a tile: with few ones all threads share them. What is left
// of 150 after chunks of 17 is few. Of 16 to 23 rows each of three ranks norms some, which are no
// row tile.
void expect_same_bits_with_many_rows(WeightFormat format) {
  checkpoint::TestShape narrow;
  narrow.model_type = "llama";
  narrow.mlp_bias = true;
  checkpoint::TestShape wide;  // leaves of 288 columns: more than a tile has
  wide.intermediate = 16 * 288;
  wide.layers = 1;
  const std::vector<TokenId> tokens = random_tokens(150, narrow.vocab, 7);
  for (const checkpoint::TestShape& shape : {narrow, wide}) {
    const auto files = checkpoint::random_checkpoint(shape);
    const TestWeights weights(*files, 2, {format, format});
    const std::vector<float> expected = last_logits(weights, {}, tokens, 10);
    for (const kernels::Isa isa : kernels::available_isas()) {
      for (const std::uint32_t ranks : {1U, 3U}) {
        for (const std::uint32_t chunk : {150U, 65U, 64U, 17U, 16U}) {
          GroupOptions options;
          options.ranks = ranks;
          options.threads = 4 - ranks;
          options.isa = isa;
          EXPECT_EQ(last_logits(weights, options, tokens, chunk), expected)
              << kernels::isa_name(isa) << ", " << ranks << " ranks, chunks of " << chunk;
        }
      }
    }
  }
}

TEST_P(EachFormat, GivesTheSameBitsWithManyRows) {
  expect_same_bits_with_many_rows(GetParam());
}

TEST(Formats, OfBf16GiveTheSameBitsWithManyRows) {
  expect_same_bits_with_many_rows(WeightFormat::kBf16);
}

// With few rows threads take shares of them, which are no row tile; 70 at once are heads in tiles.
void expect_same_bits_with_few_rows(WeightFormat format) {
  checkpoint::TestShape groups = uneven_shape();
  groups.heads = 6;
  checkpoint::TestShape one_head = uneven_shape();
  one_head.kv_heads = 1;
  const std::vector<TokenId> tokens = random_tokens(70, groups.vocab, 11);
  for (const checkpoint::TestShape& shape : {groups, one_head}) {
    const auto files = checkpoint::random_checkpoint(shape);
    const TestWeights weights(*files, 1, {format, format});
    for (const step::KvFormat kv : {step::KvFormat::kBf16, step::KvFormat::kInt8}) {
      GroupOptions options;
      options.limits.kv_format = kv;
      const std::vector<float> expected = last_logits(weights, options, tokens, 70);
      for (const kernels::Isa isa : kernels::available_isas()) {
        options.isa = isa;
        for (const auto& [threads, chunk] :
             {std::pair{1U, 9U}, {2U, 1U}, {2U, 7U}, {2U, 16U}, {3U, 8U}, {3U, 23U}, {7U, 2U}}) {
          options.threads = threads;
          EXPECT_EQ(last_logits(weights, options, tokens, chunk), expected)
              << kernels::isa_name(isa) << ", " << threads << " threads, chunks of " << chunk;
        }
      }
    }
  }
}

TEST_P(EachFormat, GivesTheSameBitsHoweverManyThreadsShareFewRows) {
  expect_same_bits_with_few_rows(GetParam());
}

TEST(Formats, OfBf16GiveTheSameBitsHoweverManyThreadsShareFewRows) {
  expect_same_bits_with_few_rows(WeightFormat::kBf16);
}

// The bytes that a rank publishes for the others in a step of so many rows.
std::uint64_t published_bytes(const TestWeights& weights, std::uint32_t rows, bool sample) {
  GroupOptions options;
  options.ranks = 2;
  options.limits.max_num_batched_tokens = 256;
  TestGroup group(weights, options);
  const std::vector<TokenId> tokens = random_tokens(rows, weights.config().vocab, 8);
  SequenceSpec spec;
  spec.sequence = 1;
  spec.tokens = tokens;
  spec.prompt_tokens = rows;
  group.attach({&spec, 1});
  const std::uint64_t before = group.communicator(0).counters().bytes;
  const std::vector<std::uint32_t> blocks = {4, 2, 9, 1, 7};
  const StepItem item{0, 1, 0, rows, sample, blocks};
  EXPECT_TRUE(group.step({&item, 1}).has_value());
  return group.communicator(0).counters().bytes - before;
}

TEST(Formats, RowsOfManyAreExchangedWithoutACopy) {
  const auto files = checkpoint::random_checkpoint(checkpoint::TestShape());
  const TestWeights weights(*files, 2, {WeightFormat::kInt8, WeightFormat::kInt8});
  const std::size_t row = weights.config().hidden * sizeof(float);
  const std::size_t before_last = 2 * (weights.config().layers - 1);
  EXPECT_EQ(published_bytes(weights, 15, false), before_last * 15 * row);
  EXPECT_EQ(published_bytes(weights, 16, false), 0U);
  // The one that samples is summed in the last layer too, and its candidates are gathered.
  const std::uint64_t sampled = published_bytes(weights, 16, true);
  EXPECT_GT(sampled, 2 * row);
  EXPECT_EQ(published_bytes(weights, 15, true), before_last * 15 * row + sampled);
}

// Rounding a number of an even distribution below amax to 127 steps errs by 1/127/√12 · √3 of its
// root mean square, some 0.4 %; to 8 steps by 6 %. Some ten roundings add up, and a wrong place
// would make the distance more than 1.
TEST_P(EachFormat, IsNearTheModelInBf16) {
  const double bound = GetParam() == WeightFormat::kInt4 ? 0.4 : 0.03;
  for (const checkpoint::TestShape& shape : {checkpoint::TestShape(), uneven_shape()}) {
    const auto files = checkpoint::random_checkpoint(shape);
    const std::vector<TokenId> tokens = random_tokens(70, shape.vocab, 9);
    const std::vector<float> expected = logits_of(TestWeights(*files), tokens);
    const std::vector<float> found =
        logits_of(TestWeights(*files, 2, {GetParam(), GetParam()}), tokens);
    const double distance = relative_distance(found, expected);
    EXPECT_LT(distance, bound);
    EXPECT_GT(distance, 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats,
                         EachFormat,
                         ::testing::Values(WeightFormat::kInt8,
                                           WeightFormat::kInt8G32,
                                           WeightFormat::kInt4),
                         [](const auto& format) {
                           std::string name(kernels::weight_format_name(format.param));
                           std::erase(name, '-');
                           return name;
                         });

// With weights of integers and without.
TEST(Formats, OfTheKvCacheGivesTheSameBitsHoweverItIsCut) {
  for (const checkpoint::TestShape& shape : {checkpoint::TestShape(), uneven_shape()}) {
    const auto files = checkpoint::random_checkpoint(shape);
    for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kInt8}) {
      expect_same_bits(TestWeights(*files, 2, {format, format}), step::KvFormat::kInt8);
    }
    const TestWeights weights(*files);
    const std::vector<TokenId> tokens = random_tokens(70, shape.vocab, 9);
    const double distance = relative_distance(logits_of(weights, tokens, step::KvFormat::kInt8),
                                              logits_of(weights, tokens));
    EXPECT_LT(distance, 0.03);
    EXPECT_GT(distance, 1e-4);
  }
}

TEST(Formats, OfLayersAndHeadMayDiffer) {
  checkpoint::TestShape shape;
  shape.tied = false;
  const auto files = checkpoint::random_checkpoint(shape);
  const std::vector<TokenId> tokens = random_tokens(40, shape.vocab, 3);
  const std::vector<float> expected = logits_of(TestWeights(*files), tokens);
  for (const WeightFormats& formats :
       {WeightFormats{WeightFormat::kInt8, WeightFormat::kBf16},
        WeightFormats{WeightFormat::kBf16, WeightFormat::kInt8G32}}) {
    const double distance =
        relative_distance(logits_of(TestWeights(*files, 2, formats), tokens), expected);
    EXPECT_LT(distance, 0.03);
    EXPECT_GT(distance, 1e-4);
  }
}

// Every format that files have and floats are not made into, mixed within a layer.
TEST(Formats, OfAMixedFileGiveTheSameBitsHoweverTheyAreCut) {
  checkpoint::TestShape shape;
  shape.hidden = 256;
  shape.intermediate = 512;
  shape.tied = false;
  using gguf::TensorType;
  constexpr std::array kTypes = {TensorType::kQ4_K,
                                 TensorType::kQ6_K,
                                 TensorType::kQ5_K,
                                 TensorType::kQ8_0,
                                 TensorType::kQ4_1,
                                 TensorType::kIQ4_NL,
                                 TensorType::kMXFP4,
                                 TensorType::kIQ3_S,
                                 TensorType::kIQ2_XS,
                                 TensorType::kNVFP4,
                                 TensorType::kQ3_K,
                                 TensorType::kQ2_K};
  const auto file = checkpoint::gguf_checkpoint(shape, [&](checkpoint::GgufParts& parts) {
    checkpoint::make_blocks(parts, [&](std::size_t i) { return kTypes[i % kTypes.size()]; });
  });
  const WeightFormats formats = checkpoint::Checkpoint::open(*file).value().stored_formats();
  ASSERT_EQ(formats.layers.size(), 2U);
  const TestWeights weights(*file, 2, formats);
  expect_same_bits(weights);
  const std::vector<TokenId> tokens = random_tokens(40, shape.vocab, 3);
  const std::vector<float> expected = logits_of(TestWeights(*file), tokens);
  const double distance = relative_distance(logits_of(weights, tokens), expected);
  EXPECT_LT(distance, 0.03);  // activations in 8 bits, and weights that bf16 rounds
  EXPECT_GT(distance, 1e-4);
}

}  // namespace
}  // namespace phalanx::model
