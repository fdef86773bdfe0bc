// SPDX-License-Identifier: Apache-2.0
// The forward pass against an independent one, and against itself under every way of cutting it.
#include <cmath>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "naive_forward.h"
#include "source_dir.h"
#include "test_group.h"
#include "unit/checkpoint/test_checkpoint.h"

namespace phalanx::model {
namespace {

std::vector<TokenId> random_tokens(std::size_t count, std::uint32_t vocab, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>(random() % vocab));
  }
  return tokens;
}

// Greedy requests of different lengths that ask for log probabilities, and seeded ones that use
// every sampling field.
std::vector<TestRequest> mixed_requests(std::uint32_t vocab) {
  std::vector<TestRequest> requests;
  for (std::uint32_t i = 0; i < 10; ++i) {
    TestRequest request;
    request.prompt = random_tokens(1 + i * 17 % 90, vocab, 100 + i);
    request.produce = 4 + i % 5;
    request.choice = i % 3;
    request.sampling.top_logprobs = static_cast<std::int32_t>(i % 4) * 5;
    request.sampling.seed = 77 + i;
    request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.7F + 0.1F * static_cast<float>(i);
    request.sampling.top_k = i % 3 == 0 ? 12 : 0;
    request.sampling.top_p = i % 4 == 1 ? 0.8F : 1.0F;
    request.sampling.min_p = i == 5 ? 0.05F : 0.0F;
    request.sampling.repetition_penalty = i % 5 == 2 ? 1.3F : 1.0F;
    request.sampling.presence_penalty = i == 7 ? 0.5F : 0.0F;
    request.sampling.frequency_penalty = i == 7 ? 0.25F : 0.0F;
    request.sampling.min_tokens = i == 3 ? 2 : 0;
    if (i == 8) {
      request.logit_bias = {{5, 4.0F}, {static_cast<TokenId>(vocab) - 1, 3.5F}};
    }
    if (i == 3) {
      request.masked = {3, 7};
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

struct Variant {
  GroupOptions group;
  GenerateOptions generate;
};

void expect_same_streams(const checkpoint::TestShape& shape, const std::vector<Variant>& variants) {
  const auto files = checkpoint::random_checkpoint(shape);
  const TestWeights weights(*files);
  const std::vector<TestRequest> requests = mixed_requests(shape.vocab);
  std::vector<std::vector<SampledToken>> expected;
  for (std::size_t v = 0; v < variants.size(); ++v) {
    TestGroup group(weights, variants[v].group);
    const auto streams = generate(group, requests, variants[v].generate);
    if (v == 0) {
      expected = streams;
      continue;
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(streams[i], expected[i]) << "variant " << v << " request " << i << "\n"
                                         << text_of(streams[i]) << "\n"
                                         << text_of(expected[i]);
    }
  }
}

Variant variant(std::uint32_t ranks, std::uint32_t threads, GenerateOptions generate) {
  Variant result;
  result.group.ranks = ranks;
  result.group.threads = threads;
  result.generate = generate;
  return result;
}

// Activations are rounded to bf16 (unit roundoff 2^-9) some ten times a layer: the error of a logit
// is a small multiple of that, relative to the size of logits.
struct Deviation {
  double squares = 0;
  double logit_squares = 0;
  double worst = 0;

  void add(float found, double expected) {
    const double error = std::abs(static_cast<double>(found) - expected);
    squares += error * error;
    logit_squares += expected * expected;
    worst = std::max(worst, error);
  }
  void expect_within_roundoff(double count) const {
    const double logit_rms = std::sqrt(logit_squares / count);
    EXPECT_LT(std::sqrt(squares / count), std::ldexp(logit_rms, -7));
    EXPECT_LT(worst, std::ldexp(logit_rms, -4));
  }
};

void expect_close_to_textbook(const checkpoint::TestShape& shape) {
  const auto files = checkpoint::random_checkpoint(shape);
  const TestWeights weights(*files);
  const auto checkpoint = checkpoint::Checkpoint::open(*files);
  ASSERT_TRUE(checkpoint.has_value());
  const std::vector<TokenId> tokens = random_tokens(70, shape.vocab, 9);
  const auto naive = naive_forward(*checkpoint, tokens);
  TestGroup group(weights, {});
  group.keep_logits();
  SequenceSpec spec;
  spec.sequence = 1;
  spec.tokens = tokens;
  spec.prompt_tokens = 1;
  group.attach({&spec, 1});
  const std::vector<std::uint32_t> blocks = {4, 2, 9};
  const std::vector<std::uint32_t> slots = {0};
  Deviation deviation;
  for (std::uint32_t position = 0; position + 1 < tokens.size(); ++position) {
    const StepItem item{0, 1, position, 1, true, blocks};
    ASSERT_TRUE(group.step({&item, 1}).has_value());
    // Teacher forcing: the sampled token must not become the next input.
    group.update(slots, {&spec, 1});
    const auto logits = group.logits(1)[0];
    for (std::size_t i = 0; i < shape.vocab; ++i) {
      deviation.add(logits[i], naive[position][i]);
    }
  }
  deviation.expect_within_roundoff(static_cast<double>((tokens.size() - 1) * shape.vocab));
}

TEST(Forward, AgreesWithTheTextbookInDoublePrecision) {
  expect_close_to_textbook({});
}

TEST(Forward, AgreesWithTheTextbookWithoutTiedHead) {
  checkpoint::TestShape shape;
  shape.tied = false;
  shape.heads = 6;
  shape.kv_heads = 3;
  shape.head_dim = 48;
  shape.intermediate = 160;
  expect_close_to_textbook(shape);
}

// The shape of SmolLM2 in small: heads that no power of two divides, no norm of heads.
checkpoint::TestShape llama_shape() {
  checkpoint::TestShape shape;
  shape.model_type = "llama";
  shape.heads = 9;
  shape.kv_heads = 3;
  shape.head_dim = 16;
  shape.hidden = 160;
  shape.intermediate = 416;
  return shape;
}

checkpoint::TestShape qwen2_shape() {
  checkpoint::TestShape shape;
  shape.model_type = "qwen2";
  shape.heads = 14;
  shape.kv_heads = 2;
  shape.head_dim = 16;
  shape.tied = false;
  return shape;
}

// Every bias that there is, with odd numbers of columns.
checkpoint::TestShape biased_shape() {
  checkpoint::TestShape shape = llama_shape();
  shape.attention_bias = true;
  shape.mlp_bias = true;
  shape.tied = false;
  return shape;
}

TEST(Forward, AgreesWithTheTextbookOfEachArchitecture) {
  for (const checkpoint::TestShape& shape : {llama_shape(), qwen2_shape(), biased_shape()}) {
    SCOPED_TRACE(checkpoint::config_json(shape));
    expect_close_to_textbook(shape);
  }
}

TEST(Forward, AgreesWithTheTextbookUnderEachRopeScaling) {
  for (const char* scaling :
       {R"({"rope_type":"linear","factor":4.0})",
        R"({"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,)"
        R"("original_max_position_embeddings":64})",
        R"({"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":128})"}) {
    SCOPED_TRACE(scaling);
    checkpoint::TestShape shape;
    shape.layers = 1;
    shape.rope_scaling = scaling;
    expect_close_to_textbook(shape);
  }
}

TEST(Forward, GivesTheSameBitsAtEveryTensorParallelDegree) {
  expect_same_streams({},
                      {variant(1, 1, {}), variant(2, 1, {}), variant(3, 1, {}), variant(4, 1, {})});
}

TEST(Forward, GivesTheSameBitsWhenUnitsDoNotDivide) {
  checkpoint::TestShape shape;
  shape.heads = 6;
  shape.kv_heads = 3;
  shape.head_dim = 16;
  shape.intermediate = 160;  // five blocks: fewer than sixteen runs
  shape.vocab = 97;
  shape.tied = false;
  expect_same_streams(shape, {variant(1, 1, {}), variant(2, 1, {}), variant(3, 1, {})});
}

TEST(Forward, GivesTheSameBitsOfEachArchitectureAtEveryDegree) {
  for (const checkpoint::TestShape& shape : {llama_shape(), biased_shape()}) {
    SCOPED_TRACE(checkpoint::config_json(shape));
    expect_same_streams(shape,
                        {variant(1, 1, {}), variant(2, 1, {16, 4, false}), variant(3, 2, {})});
  }
  expect_same_streams(qwen2_shape(), {variant(1, 1, {}), variant(2, 2, {16, 4, false})});
}

TEST(Forward, GivesTheSameBitsWithBiasesOnEveryInstructionSet) {
  std::vector<Variant> variants;
  for (const kernels::Isa isa : kernels::available_isas()) {
    variants.push_back(variant(3, 1, {16, 4, false}));
    variants.back().group.isa = isa;
  }
  expect_same_streams(biased_shape(), variants);
}

TEST(Forward, GivesTheSameBitsForEveryChunkSize) {
  expect_same_streams({},
                      {variant(1, 1, {64, 4, false}),
                       variant(1, 1, {1, 4, false}),
                       variant(1, 1, {16, 4, false}),
                       variant(1, 1, {33, 4, false})});
}

TEST(Forward, GivesTheSameBitsInEveryBatch) {
  expect_same_streams({},
                      {variant(1, 1, {64, 1, false}),
                       variant(1, 1, {64, 8, false}),
                       variant(2, 2, {16, 8, true}),
                       variant(1, 3, {7, 3, true})});
}

TEST(Forward, GivesTheSameBitsOnEveryInstructionSet) {
  std::vector<Variant> variants;
  for (const kernels::Isa isa : kernels::available_isas()) {
    variants.push_back(variant(2, 1, {16, 4, false}));
    variants.back().group.isa = isa;
  }
  expect_same_streams({}, variants);
}

TEST(Forward, DoesNotDependOnTheDtypeOfEqualWeights) {
  std::vector<std::vector<std::vector<SampledToken>>> streams;
  std::vector<std::uint64_t> hashes;
  for (const char* dtype : {"BF16", "F32", "F16"}) {
    checkpoint::TestShape shape;
    shape.layers = 1;
    shape.dtype = dtype;
    const auto files = checkpoint::random_checkpoint(shape);
    const TestWeights weights(*files);
    TestGroup group(weights, {});
    streams.push_back(generate(group, mixed_requests(shape.vocab), {}));
    hashes.push_back(weights.content_hash());
  }
  EXPECT_EQ(streams[1], streams[0]);
  EXPECT_EQ(hashes[1], hashes[0]);
  // A half has fewer exponent bits: small weights lose theirs, so only the running is compared.
  EXPECT_EQ(streams[2].size(), streams[0].size());
}

TEST(Forward, GivesTheSameBitsAtEveryDegreeOfTheBuiltInModel) {
  checkpoint::FolderSource files(std::string(PHALANX_SOURCE_DIR) + "/deploy/models/phalanx-tiny");
  const TestWeights weights(files);
  std::vector<std::vector<SampledToken>> expected;
  for (std::uint32_t ranks = 1; ranks <= 4; ++ranks) {
    GroupOptions options;
    options.ranks = ranks;
    options.isa = kernels::available_isas().back();
    TestGroup group(weights, options);
    const auto streams = generate(group, mixed_requests(weights.config().vocab), {});
    if (ranks == 1) {
      expected = streams;
    }
    EXPECT_EQ(streams, expected) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace phalanx::model
