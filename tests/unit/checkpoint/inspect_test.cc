// SPDX-License-Identifier: Apache-2.0
#include "phalanx/checkpoint/inspect.h"

#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "source_dir.h"
#include "support/gguf_writer.h"
#include "support/temp_dir.h"
#include "test_gguf.h"

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
  EXPECT_EQ(inspect(place.path().string()).error().code(), Code::kNotFound) << "no weights";
  std::ofstream(place.path().string() + "/model.safetensors") << "x";
  EXPECT_EQ(inspect(place.path().string()).error().code(), Code::kInvalidArgument);
}

void write_file(const test::TempDir& place,
                const std::string& name,
                std::span<const std::byte> bytes) {
  std::ofstream(place.path().string() + "/" + name, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

// A folder with its weights in two shards and an index.
void write_shards(const test::TempDir& place) {
  const TestShape shape;
  std::ofstream(place.path().string() + "/config.json") << config_json(shape);
  std::vector<TestTensor> first = random_tensors(shape);
  const std::vector<TestTensor> second(first.begin() + 5, first.end());
  first.resize(5);
  write_file(place, "model-1.safetensors", write_safetensors(first));
  write_file(place, "model-2.safetensors", write_safetensors(second));
  std::ofstream index(place.path().string() + "/model.safetensors.index.json");
  index << "{\"weight_map\":{";
  for (const TestTensor& tensor : first) {
    index << "\"" << tensor.name << "\":\"model-1.safetensors\",";
  }
  for (const TestTensor& tensor : second) {
    index << "\"" << tensor.name << "\":\"model-2.safetensors\"";
    index << (&tensor == &second.back() ? "}}" : ",");
  }
}

TEST(Inspect, CountsTheFilesThatAreServed) {
  const test::TempDir place;
  write_shards(place);
  const auto expected = inspect(place.path().string());
  ASSERT_TRUE(expected.has_value()) << expected.error().message();
  ASSERT_TRUE(expected->config.has_value());
  EXPECT_EQ(expected->weight_files, 2U);
  // The same weights in another layout, as some makers put them beside, or what is left of a
  // download.
  for (const char* name : {"consolidated.safetensors", "model.safetensors"}) {
    for (const std::vector<std::byte>& bytes :
         {write_safetensors(random_tensors(TestShape())), std::vector<std::byte>(40)}) {
      write_file(place, name, bytes);
      const auto found = inspect(place.path().string());
      ASSERT_TRUE(found.has_value()) << found.error().message();
      EXPECT_TRUE(found->config.has_value());
      EXPECT_EQ(found->weight_files, 2U) << name;
      EXPECT_EQ(found->parameters, expected->parameters) << name;
    }
  }
}

// A folder that can be served.
void write_model(const test::TempDir& place) {
  TestShape shape;
  shape.vocab = 512;
  std::ofstream(place.path().string() + "/config.json") << config_json(shape);
  write_file(place, "model.safetensors", write_safetensors(random_tensors(shape)));
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    std::filesystem::copy_file(
        std::string(PHALANX_SOURCE_DIR) + "/deploy/models/phalanx-tiny/" + name,
        place.path() / name);
  }
}

// Nobody asked for bf16: it is in the plan, and said.
TEST(Inspect, SaysWhyCodesAreHeldAsBf16) {
  const test::TempDir place;
  TestShape shape;
  shape.hidden = 256;
  shape.intermediate = 512;
  const auto source = gguf_checkpoint(shape, [](GgufParts& parts) {
    const std::vector<GgufTensor> plain = parts.tensors;
    make_blocks(parts, [](std::size_t) { return gguf::TensorType::kQ8_0; });
    for (std::size_t i = 0; i < plain.size(); ++i) {
      if (plain[i].name == "blk.0.ffn_up.weight") {
        parts.tensors[i] = plain[i];
      }
    }
  });
  write_file(place, "m.gguf", source->files().bytes("model.gguf"));
  const std::string path = place.path().string() + "/m.gguf";
  const std::vector<std::string> expected = {
      "all matrices of the layers are held as bf16, those with codes too: "
      "model.layers.0.mlp.up_proj.weight has none, it is BF16"};
  EXPECT_EQ(inspect(path).value().warnings, expected);
  EXPECT_TRUE(inspect(path, "int8").value().warnings.empty());
}

TEST(Inspect, ReadsEachTemplate) {
  const test::TempDir place;
  write_model(place);
  const auto obstacles = [&](const std::string& templates) {
    std::ofstream(place.path().string() + "/tokenizer_config.json")
        << "{\"chat_template\":[" + templates + "]}";
    return inspect(place.path().string()).value().obstacles;
  };
  const std::string usual = R"({"name":"default","template":"x"})";
  EXPECT_TRUE(obstacles(usual + R"(,{"name":"tool_use","template":"y"})").empty());
  const std::vector<Obstacle> found = obstacles(usual + R"(,{"name":"tool_use","template":"{{"})");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].part, "tool_use template");
  EXPECT_EQ(obstacles(R"({"name":"default","template":"{{"})").at(0).part, "chat template");
}

TEST(Inspect, CountsTheTokensThatEndAnAnswer) {
  const test::TempDir place;
  write_model(place);
  const auto obstacles = [&](int count) {
    std::ofstream file(place.path().string() + "/generation_config.json");
    file << "{\"eos_token_id\":[0";
    for (int id = 1; id < count; ++id) {
      file << "," << id;
    }
    file << "]}" << std::flush;
    return inspect(place.path().string()).value().obstacles;
  };
  EXPECT_TRUE(obstacles(63).empty()) << "and the one of the tokenizer";
  const std::vector<Obstacle> found = obstacles(64);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].error.code(), Code::kInvalidArgument);
  EXPECT_NE(found[0].error.message().find("65 end-of-sequence tokens"), std::string::npos);
}

TEST(Inspect, CountsTheShardsThatAreThere) {
  const test::TempDir place;
  write_shards(place);
  const std::string shard = place.path().string() + "/model-2.safetensors";
  ASSERT_TRUE(std::filesystem::remove(shard));
  const auto found = inspect(place.path().string());
  ASSERT_TRUE(found.has_value()) << found.error().message();
  EXPECT_EQ(found->weight_files, 1U);
  ASSERT_EQ(found->obstacles.size(), 2U) << "the model and the tokenizer";
  EXPECT_NE(found->obstacles[0].error.message().find(shard), std::string::npos);
}

}  // namespace
}  // namespace phalanx::checkpoint
