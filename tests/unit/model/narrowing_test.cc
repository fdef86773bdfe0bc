// SPDX-License-Identifier: Apache-2.0
// Behind the keys and values of the last layer only the rows that sample are computed: with the
// bits that they have alone, whatever rows are beside them and however ranks share them out.
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "test_group.h"
#include "unit/checkpoint/test_checkpoint.h"

namespace phalanx::model {
namespace {

using kernels::WeightFormat;

constexpr step::RankLimits kLimits{128, 80, 512, 320};

std::vector<TokenId> random_tokens(std::size_t count, std::uint32_t vocab, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>(random() % vocab));
  }
  return tokens;
}

// Steps of many sequences: prompts whose last chunk is part of a step, others whose is not, and
// sequences that decode; more than kExchangedRows that sample, and fewer.
std::vector<TestRequest> many_requests(std::uint32_t vocab) {
  std::vector<TestRequest> requests;
  for (std::uint32_t i = 0; i < 90; ++i) {
    TestRequest request;
    request.prompt = random_tokens(1 + i * 7 % 100, vocab, 300 + i);
    request.produce = 1 + i % 5;
    request.sampling.top_logprobs = 3;
    request.sampling.seed = i;
    request.sampling.temperature = i % 3 == 0 ? 0.0F : 1.0F;
    requests.push_back(std::move(request));
  }
  return requests;
}

GroupOptions group_options(std::uint32_t ranks, std::uint32_t threads, kernels::Isa isa) {
  GroupOptions options;
  options.ranks = ranks;
  options.threads = threads;
  options.isa = isa;
  options.limits = kLimits;
  return options;
}

class Narrowing : public ::testing::TestWithParam<WeightFormat> {};

TEST_P(Narrowing, GivesTheBitsThatASequenceHasAlone) {
  const kernels::Isa isa = kernels::available_isas().back();
  for (const std::uint32_t layers : {1U, 2U}) {
    checkpoint::TestShape shape;
    shape.layers = layers;
    const auto files = checkpoint::random_checkpoint(shape);
    const TestWeights weights(*files, 2, {GetParam(), GetParam()});
    const std::vector<TestRequest> requests = many_requests(shape.vocab);
    TestGroup alone(weights, group_options(1, 1, isa));
    const auto expected = generate(alone, requests, {kLimits.max_num_batched_tokens, 1, false});
    for (const std::uint32_t ranks : {1U, 2U, 3U}) {
      for (const GenerateOptions& cut :
           {GenerateOptions{100, 80, false}, {5, 80, true}, {30, 12, false}}) {
        TestGroup group(weights, group_options(ranks, 2, isa));
        const auto streams = generate(group, requests, cut);
        for (std::size_t i = 0; i < requests.size(); ++i) {
          EXPECT_EQ(streams[i], expected[i])
              << layers << " layers, " << ranks << " ranks, chunks of " << cut.chunk << ", request "
              << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Formats,
    Narrowing,
    ::testing::Values(WeightFormat::kBf16, WeightFormat::kInt8, WeightFormat::kInt4),
    [](const auto& format) { return std::string(kernels::weight_format_name(format.param)); });

// A step in which nothing samples has no collective behind its last keys and values, and the next
// may begin before other ranks have ended it.
TEST(Narrowing, LetsNoRankOverwriteWhatAnotherStillReads) {
  checkpoint::TestShape shape;
  shape.layers = 1;
  const auto files = checkpoint::random_checkpoint(shape);
  const TestWeights weights(*files, 2, {WeightFormat::kInt8, WeightFormat::kInt8});
  const std::vector<TokenId> tokens = random_tokens(5 * 64 + 1, shape.vocab, 11);
  const auto count = static_cast<std::uint32_t>(tokens.size());
  std::vector<std::uint32_t> blocks(step::blocks_for(count));
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = i;
  }
  const auto tokens_of = [&](std::uint32_t ranks) {
    GroupOptions options = group_options(ranks, 1, kernels::available_isas().back());
    options.limits.max_model_len = 512;
    TestGroup group(weights, options);
    SequenceSpec spec;
    spec.sequence = 1;
    spec.tokens = tokens;
    spec.prompt_tokens = count;
    spec.sampling.top_logprobs = 5;
    std::vector<std::vector<SampledToken>> last(ranks);
    for (int round = 0; round < 20; ++round) {
      group.attach({&spec, 1});
      group.on_ranks([&](std::uint32_t rank, RankModel&) {
        for (std::uint32_t start = 0; start < count; start += 64) {
          const std::uint32_t rows = std::min(64U, count - start);
          const StepItem item{0, 1, start, rows, start + rows == count, blocks};
          auto result = group.step_on(rank, {&item, 1});
          ASSERT_TRUE(result) << result.error().to_string();
          last[rank] = *std::move(result);
        }
      });
      for (const std::vector<SampledToken>& tokens_of_rank : last) {
        EXPECT_EQ(tokens_of_rank, last[0]);
      }
    }
    return last[0];
  };
  EXPECT_EQ(tokens_of(3), tokens_of(1));
}

}  // namespace
}  // namespace phalanx::model
