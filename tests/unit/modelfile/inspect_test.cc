// SPDX-License-Identifier: Apache-2.0
#include "phalanx/modelfile/inspect.h"

#include <fstream>

#include <gtest/gtest.h>

#include "source_dir.h"
#include "support/gguf_writer.h"
#include "support/temp_dir.h"

namespace phalanx::modelfile {
namespace {

using test::GgufWriter;

model::MemoryRequest request_of(std::uint32_t ranks) {
  model::MemoryRequest request;
  request.ranks = ranks;
  request.limits = {0, 8, 64, 0};
  request.result_row_bytes = 64;
  request.available_bytes = std::size_t{1} << 30;
  return request;
}

Result<Inspection> inspect_file(const test::TempDir& place, GgufWriter& writer) {
  const std::string path = place.path().string() + "/m.gguf";
  const std::vector<std::byte> bytes = writer.finish();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return inspect(path, request_of(1));
}

TEST(Inspect, DescribesAModelThatIsNotSupported) {
  const test::TempDir place;
  GgufWriter writer;
  writer.text("general.architecture", "gemma3").text("general.name", "Some name");
  writer.u32("gemma3.context_length", 4096);
  writer.texts("tokenizer.ggml.tokens", {"a", "b"}).text("tokenizer.ggml.model", "t5");
  writer.tensor("a", 0, {2, 32}, std::vector<std::byte>(256));
  writer.tensor("b", 20, {64}, std::vector<std::byte>(36));
  const auto found = inspect_file(place, writer);
  ASSERT_TRUE(found.has_value()) << found.error().message();
  EXPECT_EQ(found->format, "GGUF 3");
  EXPECT_EQ(found->architecture, "gemma3");
  EXPECT_EQ(found->name, "Some name");
  EXPECT_EQ(found->context_length, 4096U);
  EXPECT_EQ(found->parameters, 128U);
  EXPECT_EQ(found->weight_bytes, 292U);
  EXPECT_EQ(found->types.at("F32").tensors, 1U);
  EXPECT_EQ(found->types.at("IQ4_NL").elements, 64U);
  EXPECT_EQ(found->tokenizer, "t5, 2 tokens");
  EXPECT_FALSE(found->config.has_value());
  EXPECT_FALSE(found->memory.has_value());
  ASSERT_EQ(found->obstacles.size(), 2U) << "the model and the tokenizer";
  EXPECT_EQ(found->obstacles[0].part, "model");
  EXPECT_EQ(found->obstacles[0].error.code(), Code::kUnimplemented);
  EXPECT_EQ(found->obstacles[1].part, "tokenizer");
}

TEST(Inspect, PlansTheMemoryOfEachRank) {
  const std::string tiny = std::string(PHALANX_SOURCE_DIR) + "/deploy/models/phalanx-tiny";
  const auto found = inspect(tiny, request_of(3));
  ASSERT_TRUE(found.has_value()) << found.error().message();
  EXPECT_TRUE(found->obstacles.empty());
  ASSERT_TRUE(found->memory.has_value());
  ASSERT_EQ(found->memory->ranks.size(), 3U);
  EXPECT_EQ(found->memory->limits.max_model_len, 4096U) << "the model's own";
  // 4 KV heads over 3 ranks: one has two.
  EXPECT_EQ(found->memory->ranks[2].kv, 2 * found->memory->ranks[0].kv);
}

TEST(Inspect, NamesATopologyOrAMemoryThatDoesNotFit) {
  const std::string tiny = std::string(PHALANX_SOURCE_DIR) + "/deploy/models/phalanx-tiny";
  const auto wide = inspect(tiny, request_of(5));
  ASSERT_TRUE(wide.has_value());
  ASSERT_EQ(wide->obstacles.size(), 1U);
  EXPECT_EQ(wide->obstacles[0].part, "topology");
  model::MemoryRequest poor = request_of(1);
  poor.available_bytes = 1 << 20;
  const auto large = inspect(tiny, poor);
  ASSERT_TRUE(large.has_value());
  ASSERT_EQ(large->obstacles.size(), 1U);
  EXPECT_EQ(large->obstacles[0].part, "memory");
  EXPECT_EQ(large->obstacles[0].error.code(), Code::kResourceExhausted);
}

TEST(Inspect, RefusesWhatIsNoModel) {
  const test::TempDir place;
  std::ofstream(place.path().string() + "/m.gguf") << "not GGUF";
  const auto found = inspect(place.path().string() + "/m.gguf", request_of(1));
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code(), Code::kDataLoss);
  std::ofstream(place.path().string() + "/config.json") << "[]";
  EXPECT_EQ(inspect(place.path().string(), request_of(1)).error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace phalanx::modelfile
