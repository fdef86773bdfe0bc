// SPDX-License-Identifier: Apache-2.0
#include "engine_limit.h"

#include <vector>

#include <gtest/gtest.h>

namespace phalanx::bench {
namespace {

using kernels::WeightFormat;

// Every product has a size of its own, so that one that is left out or counted twice shows.
checkpoint::ModelConfig small(WeightFormat format) {
  checkpoint::ModelConfig config;
  config.layers = 3;
  config.hidden = 64;
  config.heads = 6;
  config.kv_heads = 2;
  config.head_dim = 32;
  config.intermediate = 320;
  config.vocab = 1600;
  config.formats = {format, format};
  return config;
}

step::StepItem item(std::uint32_t start, std::uint32_t count, bool sample) {
  step::StepItem result;
  result.start = start;
  result.count = count;
  result.sample = sample;
  return result;
}

// Elements of the matrices of a layer: q and o, k and v, gate and up and down.
constexpr double kLayer = 2.0 * 64 * 192 + 2.0 * 64 * 64 + 3.0 * 64 * 320;
constexpr double kKeysAndValues = 2.0 * 64 * 64;
constexpr double kHead = 64.0 * 1600;
constexpr double kPositions = 3 * 4.0 * 192;  // operations of a row for a position it attends to
// What a row that does not sample has of three layers.
constexpr double kOfOthers = 2 * kLayer + kKeysAndValues;
constexpr double kPositionsOfOthers = 2 * 4.0 * 192;
constexpr double kKvBytes = 3 * 2.0 * 64 * 2;  // keys and values of a position

TEST(EngineWork, OfDecodeReadsWeightsOnceAndAllKeysAndValues) {
  const std::vector<step::StepItem> items = {item(99, 1, true), item(49, 1, true)};
  const Work work = work_of(small(WeightFormat::kBf16), items, step::KvFormat::kBf16);
  EXPECT_DOUBLE_EQ(work.read_bytes, 2 * (3 * kLayer + kHead) + kKvBytes * (99 + 49));
  EXPECT_DOUBLE_EQ(work.bf16_flops, 2 * 2 * (3 * kLayer + kHead) + kPositions * (100 + 50));
  EXPECT_EQ(work.fma_flops, 0);
  EXPECT_EQ(work.int8_ops, 0);
  EXPECT_EQ(work.int4_ops, 0);
}

TEST(EngineWork, OfAChunkIsCausalAndHasAHeadAndTheEndOfALayerOnlyWhereItSamples) {
  const auto config = small(WeightFormat::kBf16);
  const std::vector<step::StepItem> first = {item(0, 3, false)};
  const std::vector<step::StepItem> last = {item(3, 2, true)};
  EXPECT_DOUBLE_EQ(work_of(config, first, step::KvFormat::kBf16).bf16_flops,
                   3 * 2 * kOfOthers + kPositionsOfOthers * (1 + 2 + 3));
  EXPECT_DOUBLE_EQ(work_of(config, first, step::KvFormat::kBf16).read_bytes, 2 * kOfOthers);
  EXPECT_DOUBLE_EQ(work_of(config, last, step::KvFormat::kBf16).bf16_flops,
                   2 * (kOfOthers + 3 * kLayer + kHead) + kPositionsOfOthers * 4 + kPositions * 5);
  EXPECT_DOUBLE_EQ(work_of(config, last, step::KvFormat::kBf16).read_bytes,
                   2 * (3 * kLayer + kHead) + kKvBytes * 3);
}

TEST(EngineWork, OfIntegersHasTheConversionsOfItsGroups) {
  const std::vector<step::StepItem> items = {item(0, 5, false)};
  const double products = 5 * kOfOthers;
  const double attention = kPositionsOfOthers * 15;
  const Work whole = work_of(small(WeightFormat::kInt8), items, step::KvFormat::kBf16);
  EXPECT_DOUBLE_EQ(whole.int8_ops, 2 * products);
  EXPECT_DOUBLE_EQ(whole.bf16_flops, attention);
  EXPECT_EQ(whole.fma_flops, 0);
  const Work groups = work_of(small(WeightFormat::kInt8G32), items, step::KvFormat::kBf16);
  EXPECT_DOUBLE_EQ(groups.int8_ops, 2 * products);
  EXPECT_DOUBLE_EQ(groups.bf16_flops, attention);
  EXPECT_DOUBLE_EQ(groups.fma_flops, products / 32 * 4);
  EXPECT_DOUBLE_EQ(groups.read_bytes, kOfOthers * 34 / 32);
  const Work nibbles = work_of(small(WeightFormat::kInt4), items, step::KvFormat::kBf16);
  EXPECT_DOUBLE_EQ(nibbles.int4_ops, 2 * products);
  EXPECT_EQ(nibbles.int8_ops, 0);
  EXPECT_DOUBLE_EQ(nibbles.fma_flops, groups.fma_flops);
  EXPECT_DOUBLE_EQ(nibbles.read_bytes, kOfOthers * 18 / 32);
}

struct Coded {
  WeightFormat format;
  bool is_nibbles;  // multiplied as such
  double flops;     // of a group and an output, spread over its elements
  double bytes;     // of an element
};

// Nibbles in groups of 16, and those that are indices of a table, are multiplied as bytes; five
// bits as well. A minimum costs an fma more.
TEST(EngineWork, OfFilesCodesHasTheirGroupsMinimaAndTables) {
  const std::vector<step::StepItem> items = {item(0, 5, false)};
  for (const Coded& coded : {Coded{WeightFormat::kInt4G32Min, true, 6.0 / 32, 0.5 + 8.0 / 32},
                             Coded{WeightFormat::kInt4G32MinK, true, 6.0 / 32, 40.0 / 64},
                             Coded{WeightFormat::kInt4G16MinK, false, 6.0 / 16, 44.0 / 64},
                             Coded{WeightFormat::kInt5G32Min, false, 6.0 / 32, 0.625 + 8.0 / 32},
                             Coded{WeightFormat::kInt8G16, false, 4.0 / 16, 1 + 4.0 / 16},
                             Coded{WeightFormat::kInt8G16Min, false, 6.0 / 16, 1 + 8.0 / 16},
                             Coded{WeightFormat::kIq4G32, false, 4.0 / 32, 0.5 + 4.0 / 32},
                             Coded{WeightFormat::kIq2G16, false, 4.0 / 16, 0.5 + 4.0 / 16}}) {
    SCOPED_TRACE(kernels::weight_format_name(coded.format));
    const Work work = work_of(small(coded.format), items, step::KvFormat::kBf16);
    const double products = 5 * kOfOthers;
    EXPECT_DOUBLE_EQ(work.int4_ops, coded.is_nibbles ? 2 * products : 0);
    EXPECT_DOUBLE_EQ(work.int8_ops, coded.is_nibbles ? 0 : 2 * products);
    EXPECT_DOUBLE_EQ(work.fma_flops, products * coded.flops);
    EXPECT_DOUBLE_EQ(work.read_bytes, kOfOthers * coded.bytes);
  }
}

// Scores are products of integers in groups of 32 then, sums of values stay fmas.
TEST(EngineWork, OverAKvCacheOfCodesReadsThemAndTheirScales) {
  const std::vector<step::StepItem> items = {item(99, 1, true)};
  const auto config = small(WeightFormat::kBf16);
  const Work wide = work_of(config, items, step::KvFormat::kBf16);
  const Work coded = work_of(config, items, step::KvFormat::kInt8);
  const double products = kPositions * 100 / 4;
  EXPECT_DOUBLE_EQ(coded.int8_ops, 2 * products);
  EXPECT_DOUBLE_EQ(coded.bf16_flops, wide.bf16_flops - 4 * products);
  EXPECT_DOUBLE_EQ(coded.fma_flops, 2 * products + products / 32 * 4);
  const double of_token = 2 * (32 + 2 + 32 + 2);  // a KV head's key and its scale, value and scale
  EXPECT_DOUBLE_EQ(coded.read_bytes, wide.read_bytes - kKvBytes * 99 + 3 * of_token * 99);
}

// Layouts pad keys to groups of 32 dimensions; what has to be read does not.
TEST(EngineWork, CountsNoPaddingOfKeys) {
  auto config = small(WeightFormat::kBf16);
  config.head_dim = 80;
  const auto of_token = [&](step::KvFormat format) {
    const std::vector<step::StepItem> first = {item(0, 1, true)};
    const std::vector<step::StepItem> second = {item(1, 1, true)};
    return work_of(config, second, format).read_bytes - work_of(config, first, format).read_bytes;
  };
  EXPECT_DOUBLE_EQ(of_token(step::KvFormat::kBf16), 3 * 2 * 4 * 80);
  EXPECT_DOUBLE_EQ(of_token(step::KvFormat::kInt8), 3 * 2 * (80 + 3 * 2 + 80 + 2));
}

TEST(EngineWork, OfLayersAndHeadHasTheFormatOfEach) {
  auto config = small(WeightFormat::kInt8);
  config.formats.head = WeightFormat::kBf16;
  const std::vector<step::StepItem> items = {item(0, 1, true)};
  const Work work = work_of(config, items, step::KvFormat::kBf16);
  EXPECT_DOUBLE_EQ(work.int8_ops, 2 * 3 * kLayer);
  EXPECT_DOUBLE_EQ(work.bf16_flops, 2 * kHead + kPositions);
}

TEST(EngineLimit, IsTheLargerOfReadingAndComputing) {
  const Peaks peaks{100, 10, 40, 80};
  const Limit reading = limit_of({1000, 10, 40, 0}, peaks);
  EXPECT_DOUBLE_EQ(reading.seconds, 10);
  EXPECT_TRUE(reading.by_reading);
  const Limit computing = limit_of({1000, 100, 40, 160}, peaks);
  EXPECT_DOUBLE_EQ(computing.seconds, 10 + 1 + 2);
  EXPECT_FALSE(computing.by_reading);
  EXPECT_DOUBLE_EQ(limit_of({0, 100, 0, 0, 400}, {100, 10, 40, 80, 200}).seconds, 10 + 2);
}

// A processor without integer products has no peak of them.
TEST(EngineLimit, AsksForNoPeakThatTheWorkDoesNotNeed) {
  EXPECT_DOUBLE_EQ(limit_of({100, 100, 0, 0}, {100, 10, 0, 0}).seconds, 10);
}

}  // namespace
}  // namespace phalanx::bench
