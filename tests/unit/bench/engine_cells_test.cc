// SPDX-License-Identifier: Apache-2.0
#include "engine_cells.h"

#include <gtest/gtest.h>

namespace phalanx::bench {
namespace {

constexpr CellShape kShape{64, 4};
constexpr std::uint32_t kVocab = 1000;

TEST(EngineCells, PrefillIsCutIntoChunksAndDrawsOnce) {
  const Cell cell{true, 1, 150};
  const Job job = job_of(cell, kShape, kVocab);
  ASSERT_EQ(job.steps.size(), 3U);
  EXPECT_EQ(job.warm_up, 0U);
  EXPECT_EQ(job.steps[2][0].start, 128U);
  EXPECT_EQ(job.steps[2][0].count, 22U);
  EXPECT_FALSE(job.steps[1][0].sample);
  EXPECT_TRUE(job.steps[2][0].sample);
  EXPECT_EQ(tokens_of(job), 150);
  EXPECT_EQ(job.sequences[0].blocks.size(), 5U);  // of 151 tokens
}

TEST(EngineCells, DecodeGoesOnFromItsContextWithBlocksOfItsOwn) {
  const Cell cell{false, 2, 62};
  const Job job = job_of(cell, kShape, kVocab);
  ASSERT_EQ(job.steps.size(), 5U);
  EXPECT_EQ(job.warm_up, 1U);
  EXPECT_EQ(tokens_of(job), 8);
  EXPECT_EQ(job.sequences[1].tokens.size(), 63U);
  EXPECT_EQ(job.steps[0][1].start, 62U);
  EXPECT_EQ(job.steps[4][1].start, 66U);
  EXPECT_TRUE(job.steps[4][1].sample);
  EXPECT_EQ(job.sequences[0].blocks, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(job.sequences[1].blocks, (std::vector<std::uint32_t>{3, 4, 5}));
}

TEST(EngineCells, LimitsHoldEveryCell) {
  const auto cells = cells_of({512}, {1, 100}, {128, 2000});
  ASSERT_EQ(cells.size(), 5U);
  EXPECT_EQ(cells[2], (Cell{false, 100, 128}));
  const step::RankLimits limits = limits_for(cells, kShape);
  EXPECT_EQ(limits.max_model_len, 2006U);
  EXPECT_EQ(limits.max_num_seqs, 100U);
  EXPECT_EQ(limits.max_num_batched_tokens, 100U);
  EXPECT_EQ(limits.kv_blocks, 100U * 63);
}

TEST(EngineCells, TheLimitOfAJobIsThatOfItsTimedSteps) {
  checkpoint::ModelConfig config;
  config.layers = 1;
  config.hidden = config.intermediate = config.vocab = 64;
  config.heads = config.kv_heads = 1;
  config.head_dim = 32;
  const Peaks peaks{1e9, 1e6, 0, 0, 1e6};
  const Job job = job_of({false, 2, 62}, kShape, kVocab);
  double seconds = 0;
  for (std::size_t i = 1; i < job.steps.size(); ++i) {
    seconds += limit_of(work_of(config, job.steps[i], step::KvFormat::kBf16), peaks).seconds;
  }
  EXPECT_DOUBLE_EQ(limit_of_job(config, job, peaks).seconds, seconds);
  EXPECT_FALSE(limit_of_job(config, job, peaks).by_reading);
  EXPECT_TRUE(limit_of_job(config, job, {1, 1e9, 0, 0, 1e9}).by_reading);
}

TEST(EngineCells, SpreadHasTheMedianAndTheEnds) {
  const Spread odd = spread_of({5, 1, 3});
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.max, 5);
  EXPECT_EQ(spread_of({4, 1, 2, 9}).median, 3);
}

TEST(EngineCells, NumbersAreReadWithTheirBounds) {
  EXPECT_EQ(*parse_numbers("--pp", "128,512", 1, 1000), (std::vector<std::uint32_t>{128, 512}));
  EXPECT_TRUE(parse_numbers("--pp", "", 1, 1000)->empty());
  for (const char* const text : {"0", "1001", "x", "1,,2", "1 2", "-1"}) {
    EXPECT_FALSE(parse_numbers("--pp", text, 1, 1000)) << text;
  }
}

}  // namespace
}  // namespace phalanx::bench
