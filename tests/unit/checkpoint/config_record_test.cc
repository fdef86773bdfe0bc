// SPDX-License-Identifier: Apache-2.0
#include "phalanx/checkpoint/config_record.h"

#include <gtest/gtest.h>

namespace phalanx::checkpoint {
namespace {

// No field has its default.
ModelConfig unusual() {
  ModelConfig config;
  config.model_type = "llama\n=odd";
  config.layers = 28;
  config.hidden = 1024;
  config.heads = 16;
  config.kv_heads = 8;
  config.head_dim = 128;
  config.intermediate = 3072;
  config.vocab = 151936;
  config.max_position = 40960;
  config.sliding_window = 40960;
  config.attention_chunk = 65536;
  config.rms_norm_eps = 1.0e-5F;
  config.rope = {
      128, 1e6 / 3, kernels::RopeScaling::kYarn, 4.0, 1.5, 3.5, 4096, 31, 2, 0.7, {1.0F, 1.0F / 3}};
  config.tied_head = true;
  config.qk_norm = true;
  config.qkv_bias = true;
  config.output_bias = true;
  config.mlp_bias = true;
  config.eos = {151645, -1};
  LayerFormats mixed = LayerFormats::all(kernels::WeightFormat::kInt4G32Min);
  mixed.v = mixed.down = kernels::WeightFormat::kInt8G16;
  config.formats.layers = {LayerFormats::all(kernels::WeightFormat::kInt4), mixed};
  config.formats.embedding = kernels::WeightFormat::kInt8;
  config.formats.head = kernels::WeightFormat::kInt8G32;
  return config;
}

TEST(ConfigRecord, KeepsEveryFieldToTheBit) {
  const ModelConfig config = unusual();
  const ModelConfig read = from_record(to_record(config)).value();
  EXPECT_EQ(hash_of(read), hash_of(config));
  EXPECT_EQ(read.model_type, config.model_type);
  EXPECT_EQ(read.max_position, config.max_position);
  EXPECT_EQ(read.sliding_window, config.sliding_window);
  EXPECT_EQ(read.attention_chunk, config.attention_chunk);
  EXPECT_EQ(read.rope.head_dim, config.rope.head_dim);
  EXPECT_EQ(read.rope.divisors, config.rope.divisors);
  EXPECT_EQ(read.eos, config.eos);
  EXPECT_EQ(read.formats, config.formats);
  EXPECT_EQ(to_record(read), to_record(config));
}

TEST(ConfigRecord, RefusesWhatItDidNotWrite) {
  const std::string record = to_record(unusual());
  for (std::size_t length = 0; length < record.size(); ++length) {
    EXPECT_FALSE(from_record(std::string_view(record).substr(0, length)).has_value()) << length;
  }
  EXPECT_FALSE(from_record(record + "more=1\n").has_value());
  std::string other = record;
  other.replace(other.find("layers=28"), 9, "layers=29");
  EXPECT_NE(from_record(other).error().message().find("'hash'"), std::string::npos);
  other = record;
  other.replace(other.find("vocab=151936"), 12, "vocab=99999999999");
  EXPECT_NE(from_record(other).error().message().find("'vocab'"), std::string::npos);
}

}  // namespace
}  // namespace phalanx::checkpoint
