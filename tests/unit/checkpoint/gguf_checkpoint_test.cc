// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/checkpoint/checkpoint.h"
#include "phalanx/model/weight_arena.h"

#include "test_gguf.h"

namespace phalanx::checkpoint {
namespace {

using test::GgufWriter;

// The packed weights and the configuration, whatever they were read from.
struct Packed {
  std::uint64_t config = 0;
  std::uint64_t weights = 0;

  friend bool operator==(const Packed&, const Packed&) = default;
};

Result<Packed> pack(FileSource& files, const WeightFormats& formats = {}) {
  PHALANX_TRY(const Checkpoint checkpoint, Checkpoint::open(files));
  ModelConfig config = checkpoint.config();
  config.formats = formats;
  const std::size_t bytes = model::layout_of(config).bytes;
  std::vector<std::byte> memory(bytes + model::kArenaAlignment);
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::size_t skip =
      (model::kArenaAlignment - address % model::kArenaAlignment) % model::kArenaAlignment;
  PHALANX_TRY(const std::uint64_t hash,
              model::fill_arena(checkpoint, config, std::span(memory).subspan(skip, bytes), {}));
  return Packed{hash_of(checkpoint.config()), hash};
}

TestShape shape_of(const std::string& model_type, const std::string& dtype) {
  TestShape shape;
  shape.model_type = model_type;
  shape.dtype = dtype;
  shape.tied = dtype != "F16";
  shape.attention_bias = model_type == "llama" && dtype == "F32";
  shape.mlp_bias = shape.attention_bias;
  return shape;
}

TEST(GgufCheckpoint, EqualsTheFolderOfTheSameWeights) {
  for (const char* model_type : {"qwen3", "qwen2", "llama"}) {
    for (const char* dtype : {"BF16", "F16", "F32"}) {
      const TestShape shape = shape_of(model_type, dtype);
      const auto folder = pack(*random_checkpoint(shape));
      const auto gguf = pack(*gguf_checkpoint(shape));
      ASSERT_TRUE(folder.has_value()) << folder.error().message();
      ASSERT_TRUE(gguf.has_value()) << model_type << ": " << gguf.error().message();
      EXPECT_EQ(*gguf, *folder) << model_type << " " << dtype;
    }
  }
}

TEST(GgufCheckpoint, ReadsSplitFilesNamedByAnyOfThem) {
  const TestShape shape = shape_of("llama", "F16");
  const std::vector<GgufTensor> tensors = gguf_tensors(shape);
  constexpr std::uint32_t kFiles = 3;
  const auto name_of = [](std::uint32_t number) {
    return "m-0000" + std::to_string(number + 1) + "-of-00003.gguf";
  };
  const auto folder = pack(*random_checkpoint(shape));
  ASSERT_TRUE(folder.has_value());
  for (std::uint32_t named = 0; named < kFiles; ++named) {
    GgufSource source(name_of(named));
    for (std::uint32_t number = 0; number < kFiles; ++number) {
      GgufWriter writer;
      if (number == 0) {
        write_keys(shape, writer);
      }
      writer.u32("split.no", number).u32("split.count", kFiles);
      writer.u32("split.tensors.count", static_cast<std::uint32_t>(tensors.size()));
      for (std::size_t i = number; i < tensors.size(); i += kFiles) {
        writer.tensor(tensors[i].name, tensors[i].type, tensors[i].shape, tensors[i].bytes);
      }
      source.files().put(name_of(number), writer.finish());
    }
    const auto packed = pack(source);
    ASSERT_TRUE(packed.has_value()) << packed.error().message();
    EXPECT_EQ(*packed, *folder);
    source.files().remove(name_of((named + 1) % kFiles));
    const auto missing = Checkpoint::read_config(source);
    ASSERT_FALSE(missing.has_value());
    EXPECT_EQ(missing.error().code(), Code::kNotFound);
    EXPECT_NE(missing.error().message().find(name_of((named + 1) % kFiles)), std::string::npos);
  }
}

TEST(GgufCheckpoint, DecodesBlocksFromAnyColumn) {
  constexpr std::uint64_t kRows = 3;
  constexpr std::uint64_t kColumns = 2560;  // more than is decoded at once
  for (const gguf::TensorType type : {gguf::TensorType::kQ4_K, gguf::TensorType::kQ5_0}) {
    const gguf::TypeTraits& traits = gguf::traits_of(type);
    std::vector<std::byte> bytes(kRows * kColumns / traits.block_elements * traits.block_bytes);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(i * 37 % 61);
    }
    std::vector<float> values(kRows * kColumns);
    gguf::decode(type, bytes, values);
    const WeightTensor weight{"w", type, kRows, kColumns, bytes, 0};
    for (const auto& [first, count] : std::vector<std::pair<std::size_t, std::size_t>>{
             {0, kColumns}, {1, 1}, {255, 2}, {300, 1024}, {1000, 1560}, {2559, 1}}) {
      std::vector<tensor::Bf16> out(count);
      weight.read_bf16(2, first, out);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(out[i], tensor::to_bf16(values[2 * kColumns + first + i])) << first << "+" << i;
      }
    }
  }
}

// Codes of a matrix whose every block has the one that says its scale, 2^-6, so that quantising the
// decoded numbers gives the same codes again.
struct Codes {
  int least;
  int most;

  [[nodiscard]] int at(std::size_t index) const {
    const auto range = static_cast<std::size_t>(most - least + 1);
    return index % 32 == index / 32 % 32 ? least : least + static_cast<int>(index * 37 % range);
  }
};

std::vector<std::byte> blocks_of(gguf::TensorType type, const Codes& codes, std::size_t count) {
  std::vector<std::byte> bytes;
  for (std::size_t first = 0; first < count; first += 32) {
    bytes.insert(bytes.end(), {std::byte{0x00}, std::byte{0x24}});  // 2^-6 as binary16
    for (std::size_t i = 0; type == gguf::TensorType::kQ8_0 && i < 32; ++i) {
      bytes.push_back(static_cast<std::byte>(codes.at(first + i)));
    }
    for (std::size_t i = 0; type == gguf::TensorType::kQ4_0 && i < 16; ++i) {
      const int pair = (codes.at(first + i) + 8) | (codes.at(first + i + 16) + 8) << 4;
      bytes.push_back(static_cast<std::byte>(pair));
    }
  }
  return bytes;
}

std::vector<std::byte> bf16_of(const Codes& codes, std::size_t count) {
  std::vector<tensor::Bf16> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = tensor::to_bf16(static_cast<float>(codes.at(i)) * 0x1p-6F);
  }
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

TEST(GgufCheckpoint, KeepsTheBlocksThatAFormatIsMadeOf) {
  const std::tuple<gguf::TensorType, Codes, kernels::WeightFormat> cases[] = {
      {gguf::TensorType::kQ8_0, {-127, 127}, kernels::WeightFormat::kInt8G32},
      {gguf::TensorType::kQ4_0, {-8, 7}, kernels::WeightFormat::kInt4}};
  for (const auto& [type, codes, format] : cases) {
    // Rows of a llama file are interleaved, which blocks must follow too.
    const TestShape shape = shape_of("llama", "BF16");
    const auto with = [&, type = type, codes = codes](bool as_blocks) {
      return gguf_checkpoint(shape, [&](GgufParts& parts) {
        for (GgufTensor& tensor : parts.tensors) {
          if (tensor.shape.size() == 2) {
            const std::size_t count = tensor.shape[0] * tensor.shape[1];
            tensor.type = static_cast<std::uint32_t>(as_blocks ? type : gguf::TensorType::kBF16);
            tensor.bytes = as_blocks ? blocks_of(type, codes, count) : bf16_of(codes, count);
          }
        }
      });
    };
    const auto blocks = Checkpoint::open(*with(true));
    ASSERT_TRUE(blocks.has_value()) << blocks.error().message();
    EXPECT_EQ(blocks->stored_formats(), (WeightFormats{format, format}));
    EXPECT_EQ(Checkpoint::open(*with(false)).value().stored_formats(), WeightFormats{});
    const auto kept = pack(*with(true), {format, format});
    const auto made = pack(*with(false), {format, format});
    ASSERT_TRUE(kept.has_value()) << kept.error().message();
    ASSERT_TRUE(made.has_value()) << made.error().message();
    EXPECT_EQ(*kept, *made);
  }
}

TEST(GgufCheckpoint, RefusesWeightsThatAreInfinite) {
  const auto source = gguf_checkpoint(shape_of("qwen3", "BF16"), [](GgufParts& parts) {
    for (GgufTensor& tensor : parts.tensors) {
      if (tensor.name == "blk.1.ffn_up.weight") {
        tensor.bytes[1] = std::byte{0x7F};
        tensor.bytes[0] = std::byte{0x80};
      }
    }
  });
  for (const auto format : {kernels::WeightFormat::kBf16, kernels::WeightFormat::kInt8}) {
    const auto refused = pack(*source, {format, format});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), Code::kDataLoss);
    EXPECT_TRUE(refused.error().message().starts_with(
        "model.layers.1.mlp.up_proj.weight: row 0, column 0: "))
        << refused.error().message();
  }
}

TEST(GgufCheckpoint, ReadsTheConfiguration) {
  const TestShape shape = shape_of("llama", "BF16");
  auto source = gguf_checkpoint(shape, [](GgufParts& parts) {
    parts.writer.text("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 4.0F);
    parts.writer.u32("llama.rope.scaling.original_context_length", 128);
    parts.writer.f32("general.sampling.temp", 0.25F).u32("general.sampling.top_k", 40);
    parts.writer.texts("tokenizer.ggml.tokens", {"a", "<|im_end|>", "</s>", "b"});
    parts.writer.integers("tokenizer.ggml.token_type", {1, 3, 1, 3});
  });
  const auto checkpoint = Checkpoint::open(*source);
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  const ModelConfig& config = checkpoint->config();
  EXPECT_EQ(config.vocab, shape.vocab);
  EXPECT_EQ(config.rope.scaling, kernels::RopeScaling::kYarn);
  EXPECT_EQ(config.rope.factor, 4.0);
  EXPECT_EQ(config.rope.original_max_position_embeddings, 128.0);
  EXPECT_TRUE(config.tied_head);
  // Named by keys: 7 and 3; by its text as a control token: 1. "</s>" is an ordinary token here.
  EXPECT_EQ(config.eos, (std::vector<TokenId>{1, 3, 7}));
  EXPECT_EQ(checkpoint->generation().eos, config.eos);
  EXPECT_EQ(checkpoint->generation().temperature, 0.25F);
  EXPECT_EQ(checkpoint->generation().top_k, 40);
}

// As converters write them for models that have nothing of the kind.
TEST(GgufCheckpoint, TakesWhatChangesNothing) {
  const TestShape shape = shape_of("llama", "BF16");
  const auto plain = Checkpoint::open(*gguf_checkpoint(shape));
  ASSERT_TRUE(plain.has_value()) << plain.error().message();
  const std::vector<std::function<void(GgufWriter&)>> neutral = {
      [](GgufWriter& w) { w.text("llama.rope.scaling.type", "linear"); },
      [](GgufWriter& w) { w.f32("llama.rope.scaling.factor", 0.0F); },
      [](GgufWriter& w) {
        w.text("llama.rope.scaling.type", "none").f32("llama.rope.scaling.attn_factor", 1.0F);
      },
      [](GgufWriter& w) { w.f32("llama.rope.scale_linear", 1.0F); },
  };
  for (std::size_t i = 0; i < neutral.size(); ++i) {
    const auto checkpoint = Checkpoint::open(
        *gguf_checkpoint(shape, [&](GgufParts& parts) { neutral[i](parts.writer); }));
    ASSERT_TRUE(checkpoint.has_value()) << i << ": " << checkpoint.error().message();
    EXPECT_EQ(hash_of(checkpoint->config()), hash_of(plain->config())) << i;
  }
}

TEST(GgufCheckpoint, TakesOneNumberForEachLayerIfTheyAreEqual) {
  const TestShape shape = shape_of("llama", "BF16");
  const auto with = [&](const std::vector<std::int32_t>& kv_heads) {
    return Checkpoint::open(*gguf_checkpoint(shape, [&](GgufParts& parts) {
      parts.writer = GgufWriter();
      write_keys(shape, parts.writer, kv_heads);
    }));
  };
  const auto count = static_cast<std::int32_t>(shape.kv_heads);
  const auto equal = with({count, count});
  ASSERT_TRUE(equal.has_value()) << equal.error().message();
  EXPECT_EQ(equal->config().kv_heads, shape.kv_heads);
  const auto several = with({count, 2 * count});
  ASSERT_FALSE(several.has_value());
  EXPECT_EQ(several.error().code(), Code::kUnimplemented) << several.error().message();
  EXPECT_NE(several.error().message().find("llama.attention.head_count_kv"), std::string::npos);
  const auto nothing = with({0, 0});
  ASSERT_FALSE(nothing.has_value());
  EXPECT_EQ(nothing.error().code(), Code::kInvalidArgument) << nothing.error().message();
}

TEST(GgufCheckpoint, TakesTheDivisorsOfLlama3FromTheirTensor) {
  const TestShape shape = shape_of("llama", "BF16");
  std::vector<float> divisors(shape.head_dim / 2, 1.0F);
  divisors.back() = 8.0F;
  const auto with = [&](std::uint64_t count) {
    return gguf_checkpoint(shape, [&](GgufParts& parts) {
      const auto bytes = std::as_bytes(std::span(divisors).first(count));
      parts.tensors.push_back({"rope_freqs.weight", 0, {count}, {bytes.begin(), bytes.end()}});
    });
  };
  const auto checkpoint = Checkpoint::open(*with(divisors.size()));
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
  const auto plain =
      kernels::make_rope_frequencies(Checkpoint::read_config(*gguf_checkpoint(shape)).value().rope);
  const auto scaled = kernels::make_rope_frequencies(checkpoint->config().rope);
  ASSERT_TRUE(scaled.has_value());
  EXPECT_EQ(scaled->inverse.front(), plain->inverse.front());
  EXPECT_EQ(scaled->inverse.back(), plain->inverse.back() / 8.0);
  EXPECT_NE(hash_of(checkpoint->config()),
            hash_of(Checkpoint::read_config(*gguf_checkpoint(shape)).value()));
  const auto shorter = Checkpoint::open(*with(divisors.size() - 1));
  ASSERT_FALSE(shorter.has_value());
  EXPECT_NE(shorter.error().message().find("expected 16 F32, found 15"), std::string::npos);
}

void expect_refused(const std::function<void(GgufParts&)>& change,
                    Code code,
                    std::initializer_list<const char*> parts) {
  const auto checkpoint = Checkpoint::open(*gguf_checkpoint(shape_of("llama", "BF16"), change));
  ASSERT_FALSE(checkpoint.has_value());
  EXPECT_EQ(checkpoint.error().code(), code) << checkpoint.error().message();
  for (const char* part : parts) {
    EXPECT_NE(checkpoint.error().message().find(part), std::string::npos)
        << part << " is not in: " << checkpoint.error().message();
  }
}

TEST(GgufCheckpoint, RefusesWhatWouldBeAnotherModel) {
  const auto key = [](const char* name, std::uint32_t value) {
    return [=](GgufParts& parts) { parts.writer.u32(name, value); };
  };
  expect_refused(key("llama.expert_count", 8), Code::kUnimplemented, {"expert_count", "8"});
  expect_refused(key("llama.rope.dimension_count", 16),
                 Code::kUnimplemented,
                 {"rope.dimension_count", "expected 32", "16"});
  expect_refused([](GgufParts& parts) { parts.writer.boolean("llama.attention.causal", false); },
                 Code::kUnimplemented,
                 {"attention.causal", "expected true"});
  expect_refused([](GgufParts& parts) { parts.writer.f32("llama.rope.scale_linear", 0.5F); },
                 Code::kUnimplemented,
                 {"rope.scale_linear", "expected none or 1", "0.5"});
  expect_refused([](GgufParts& parts) { parts.writer.f32("llama.rope.scaling.attn_factor", 2.0F); },
                 Code::kUnimplemented,
                 {"rope.scaling.attn_factor", "expected 1", "2"});
  expect_refused(key("llama.rope.scaling.alpha", 2), Code::kUnimplemented, {"scaling.alpha"});
  expect_refused([](GgufParts& parts) { parts.writer.text("llama.rope.scaling.type", "longrope"); },
                 Code::kUnimplemented,
                 {"longrope", "yarn"});
  expect_refused(
      [](GgufParts& parts) {
        parts.tensors.push_back({"blk.0.attn_sinks.weight", 0, {1}, std::vector<std::byte>(4)});
      },
      Code::kUnimplemented,
      {"blk.0.attn_sinks.weight", "expected none"});
  expect_refused(
      [](GgufParts& parts) { parts.writer = GgufWriter().text("general.architecture", "gemma3"); },
      Code::kUnimplemented,
      {"architecture \"gemma3\" is not supported", "qwen3, qwen2, llama"});
}

TEST(GgufCheckpoint, ReachesAsFarAsASlidingWindow) {
  for (const auto& [window, left] :
       {std::pair(0U, 512U), std::pair(128U, 128U), std::pair(512U, 512U)}) {
    const auto checkpoint =
        Checkpoint::open(*gguf_checkpoint(shape_of("llama", "BF16"), [&](GgufParts& parts) {
          parts.writer.u32("llama.attention.sliding_window", window);
        }));
    ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
    EXPECT_EQ(checkpoint->config().max_position, left);
    EXPECT_EQ(checkpoint->config().sliding_window, left < 512 ? left : 0);
  }
}

// context_length is what the model was trained on: behind its linear scale, if it was with one.
TEST(GgufCheckpoint, ReachesNoFurtherThanItsContextLengthWithALinearScale) {
  for (const auto& [original, reached] :
       {std::pair(0U, 512U), std::pair(128U, 512U), std::pair(512U, 2048U)}) {
    const auto config =
        Checkpoint::read_config(*gguf_checkpoint(shape_of("llama", "BF16"), [&](GgufParts& parts) {
          parts.writer.text("llama.rope.scaling.type", "linear");
          parts.writer.f32("llama.rope.scaling.factor", 4.0F);
          if (original != 0) {
            parts.writer.u32("llama.rope.scaling.original_context_length", original);
          }
        }));
    ASSERT_TRUE(config.has_value()) << config.error().message();
    EXPECT_EQ(config->rope.factor, 4.0);
    EXPECT_EQ(config->max_position, reached) << original;
  }
}

// As in generation_config.json: a share of nothing keeps one token.
TEST(GgufCheckpoint, TakesAShareOfNothingAsTheLeast) {
  for (const float none : {0.0F, 1e-40F, 1e-10F}) {
    const auto source = gguf_checkpoint(shape_of("llama", "BF16"), [&](GgufParts& parts) {
      parts.writer.f32("general.sampling.top_p", none);
    });
    const auto checkpoint = Checkpoint::open(*source);
    ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message();
    EXPECT_EQ(checkpoint->generation().top_p, 1e-10F) << none;
  }
}

// Zeros behind the point would say that 0.000000 is not from 0.000000 on.
TEST(GgufCheckpoint, NamesNumbersOfAnySize) {
  const auto key = [](const char* name, float value) {
    return [=](GgufParts& parts) { parts.writer.f32(name, value); };
  };
  expect_refused(key("general.sampling.top_p", -0x1p-20F),
                 Code::kInvalidArgument,
                 {"sampling.top_p", "from 0 to 1, found -9.53674316e-07"});
  expect_refused(key("llama.rope.scaling.factor", 0x1p-20F),
                 Code::kInvalidArgument,
                 {"scaling.factor", "from 1 to 10000, found 9.53674316e-07"});
  expect_refused(key("llama.logit_scale", 0x1p-20F),
                 Code::kUnimplemented,
                 {"logit_scale", "found 9.53674316e-07"});
  expect_refused(key("llama.rope.scaling.yarn_attn_factor", 1.00000012F),
                 Code::kUnimplemented,
                 {"yarn_attn_factor", "expected 1, found 1.00000012"});
}

TEST(GgufCheckpoint, RefusesTensorsThatAreNotAsExpected) {
  expect_refused([](GgufParts& parts) { parts.tensors.erase(parts.tensors.begin() + 3); },
                 Code::kNotFound,
                 {"\"blk.0.attn_k.weight\"", "k_proj", "found none"});
  expect_refused(
      [](GgufParts& parts) {
        parts.tensors[2].shape = {64, 256};
      },
      Code::kDataLoss,
      {"\"blk.0.attn_q.weight\"", "[256, 64]", "[64, 256]"});
  expect_refused(
      [](GgufParts& parts) {
        GgufTensor& tensor = parts.tensors[0];
        tensor.type = 9;
        tensor.bytes.resize(301 * 2 * 40);
      },
      Code::kUnimplemented,
      {"\"token_embd.weight\"", "Q8_1", "Q4_K"});
  expect_refused([](GgufParts& parts) { parts.tensors.erase(parts.tensors.begin()); },
                 Code::kNotFound,
                 {"token_embd.weight"});
}

}  // namespace
}  // namespace phalanx::checkpoint
