// SPDX-License-Identifier: Apache-2.0
#include "phalanx/checkpoint/inspect.h"

#include <fstream>

#include <gtest/gtest.h>

#include "support/gguf_writer.h"
#include "support/temp_dir.h"

namespace phalanx::checkpoint {
namespace {

using test::GgufWriter;

Result<Inspection> inspect_file(const test::TempDir& place, GgufWriter& writer) {
  const std::string path = place.path().string() + "/m.gguf";
  const std::vector<std::byte> bytes = writer.finish();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return inspect(path);
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
  ASSERT_EQ(found->obstacles.size(), 2U) << "the model and the tokenizer";
  EXPECT_EQ(found->obstacles[0].part, "model");
  EXPECT_EQ(found->obstacles[0].error.code(), Code::kUnimplemented);
  EXPECT_EQ(found->obstacles[1].part, "tokenizer");
}

TEST(Inspect, RefusesWhatIsNoModel) {
  const test::TempDir place;
  std::ofstream(place.path().string() + "/m.gguf") << "not GGUF";
  const auto found = inspect(place.path().string() + "/m.gguf");
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code(), Code::kDataLoss);
  std::ofstream(place.path().string() + "/config.json") << "[]";
  EXPECT_EQ(inspect(place.path().string()).error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace phalanx::checkpoint
