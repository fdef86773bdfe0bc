// SPDX-License-Identifier: Apache-2.0
// The formats that GGUF files are served in: every block type with exactly the values that it
// decodes to.
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/checkpoint/checkpoint.h"
#include "phalanx/kernels/float_mode.h"
#include "phalanx/kernels/rows.h"
#include "phalanx/model/shard_plan.h"
#include "phalanx/model/weight_arena.h"
#include "phalanx/tensor/arena.h"

#include "test_gguf.h"

namespace phalanx::checkpoint {
namespace {

using gguf::TensorType;
using kernels::WeightFormat;

constexpr std::array kCodedTypes = {
    TensorType::kQ8_0,   TensorType::kQ4_K,   TensorType::kQ6_K,    TensorType::kQ5_0,
    TensorType::kQ5_K,   TensorType::kQ4_0,   TensorType::kQ5_1,    TensorType::kQ4_1,
    TensorType::kQ3_K,   TensorType::kIQ1_S,  TensorType::kIQ1_M,   TensorType::kIQ2_XXS,
    TensorType::kIQ2_XS, TensorType::kIQ2_S,  TensorType::kIQ3_XXS, TensorType::kIQ3_S,
    TensorType::kIQ4_NL, TensorType::kIQ4_XS, TensorType::kMXFP4,   TensorType::kNVFP4,
    TensorType::kTQ1_0,  TensorType::kTQ2_0,  TensorType::kQ2_K,    TensorType::kQ1_0,
    TensorType::kQ2_0};

// Leaves of 64 inputs, and of the MLP of a 16th of `intermediate`, lie within blocks of 256.
TestShape shape_of_blocks(std::uint32_t intermediate = 512) {
  TestShape shape;
  shape.hidden = 256;
  shape.intermediate = intermediate;
  shape.vocab = 97;
  shape.tied = false;
  return shape;
}

// The elements of column `column` of a packed weight.
std::vector<float> column_of(const kernels::WeightView& weight, std::uint32_t column) {
  const auto token = static_cast<TokenId>(column);
  std::vector<float> values(weight.rows);
  kernels::embedding({weight, &token, 1, values.data(), weight.rows}, 0);
  return values;
}

class PackedFile {
 public:
  explicit PackedFile(GgufSource& source)
      : checkpoint_(Checkpoint::open(source).value()), config_(checkpoint_.config()) {
    config_.formats = checkpoint_.stored_formats();
    layout_ = model::layout_of(config_);
    memory_ = tensor::AlignedBuffer(layout_.bytes, model::kArenaAlignment);
    EXPECT_TRUE(model::fill_arena(checkpoint_, config_, memory_.bytes(), {}).has_value());
  }

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] const model::ArenaLayout& layout() const { return layout_; }

  // Inputs [first_k, first_k + k) of the weight lie at `offset` as one packed matrix, or as one for
  // each 64 outputs, a stride apart.
  void expect_packed(const std::string& name,
                     WeightFormat format,
                     std::size_t offset,
                     std::size_t first_k,
                     std::size_t k,
                     std::size_t stride = 0) const {
    SCOPED_TRACE(name);
    const WeightTensor& tensor = checkpoint_.weight(name);
    std::vector<float> values(tensor.rows * tensor.columns);
    gguf::decode(tensor.type, tensor.bytes, values);
    kernels::WeightView view = {format,
                                static_cast<std::uint32_t>(k),
                                static_cast<std::uint32_t>(tensor.rows),
                                memory_.bytes().data() + offset};
    for (std::uint32_t row = 0; row < tensor.rows; ++row) {
      view.data = memory_.bytes().data() + offset + row / 64 * stride;
      const std::vector<float> found = column_of(view, stride == 0 ? row : row % 64);
      for (std::size_t i = 0; i < k; ++i) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(found[i]),
                  std::bit_cast<std::uint32_t>(values[row * tensor.columns + first_k + i]))
            << "row " << row << ", column " << first_k + i;
      }
    }
  }

 private:
  Checkpoint checkpoint_;
  ModelConfig config_;
  model::ArenaLayout layout_;
  tensor::AlignedBuffer memory_;
};

void expect_decoded_values(const TestShape& shape) {
  for (std::size_t turn = 0; turn < kCodedTypes.size(); ++turn) {
    const auto source = gguf_checkpoint(shape, [&](GgufParts& parts) {
      make_blocks(parts,
                  [&](std::size_t i) { return kCodedTypes[(i + turn) % kCodedTypes.size()]; });
    });
    const PackedFile file(*source);
    const WeightFormats& formats = file.config().formats;
    file.expect_packed(
        "model.embed_tokens.weight", formats.embedding, file.layout().embedding, 0, shape.hidden);
    file.expect_packed("lm_head.weight", formats.head, file.layout().head, 0, shape.hidden);
    const auto index = static_cast<std::uint32_t>(turn % shape.layers);
    const std::string layer = "model.layers." + std::to_string(index) + ".";
    const LayerFormats& of_layer = formats.layer(index);
    const model::LayerOffsets& at = file.layout().layers[index];
    file.expect_packed(layer + "self_attn.q_proj.weight", of_layer.q, at.q, 0, shape.hidden);
    file.expect_packed(layer + "self_attn.k_proj.weight", of_layer.k, at.k, 0, shape.hidden);
    file.expect_packed(layer + "self_attn.v_proj.weight", of_layer.v, at.v, 0, shape.hidden);
    file.expect_packed(layer + "mlp.gate_proj.weight", of_layer.gate, at.gate, 0, shape.hidden);
    file.expect_packed(layer + "mlp.up_proj.weight", of_layer.up, at.up, 0, shape.hidden);
    const std::size_t o_bytes = kernels::weight_bytes(of_layer.o, 64, 64);
    for (std::size_t group = 0; group < shape.kv_heads; ++group) {
      file.expect_packed(layer + "self_attn.o_proj.weight",
                         of_layer.o,
                         at.o + group * o_bytes,
                         group * 64,
                         64,
                         shape.kv_heads * o_bytes);
    }
    const model::Units units = model::units_of(file.config());
    ASSERT_EQ(units.mlp, 16U);
    std::size_t stride = 0;
    const auto k_of = [&](std::uint32_t run) {
      return std::size_t{units.mlp_blocks_of(run).count} * model::kMlpBlock;
    };
    for (std::uint32_t run = 0; run < 16; ++run) {
      stride += kernels::weight_bytes(of_layer.down, k_of(run), 64);
    }
    std::size_t offset = at.down;
    for (std::uint32_t run = 0; run < 16; ++run) {
      file.expect_packed(layer + "mlp.down_proj.weight",
                         of_layer.down,
                         offset,
                         std::size_t{units.mlp_blocks_of(run).first} * model::kMlpBlock,
                         k_of(run),
                         stride);
      offset += kernels::weight_bytes(of_layer.down, k_of(run), 64);
    }
  }
}

TEST(GgufFormats, HoldEveryBlockTypeWithItsDecodedValues) {
  expect_decoded_values(shape_of_blocks(512));  // half superblocks
  expect_decoded_values(shape_of_blocks(1024));
  expect_decoded_values(shape_of_blocks(1536));
}

// A scale of a matrix, as converters write one beside NVFP4.
GgufTensor matrix_scale(const std::string& name, float scale) {
  GgufTensor tensor{name, 0, {1}, std::vector<std::byte>(sizeof(scale))};
  std::memcpy(tensor.bytes.data(), &scale, sizeof(scale));
  return tensor;
}

TEST(GgufFormats, ScalesOfMatricesMultiplyThoseOfTheirGroups) {
  constexpr float kScale = 0.3F;  // no power of two: products are rounded
  const auto source = gguf_checkpoint(shape_of_blocks(), [&](GgufParts& parts) {
    make_blocks(parts, [](std::size_t) { return TensorType::kNVFP4; });
    parts.tensors.push_back(matrix_scale("blk.0.attn_q.scale", kScale));
    parts.tensors.push_back(matrix_scale("blk.0.attn_q.input_scale", 7.0F));
  });
  const Checkpoint checkpoint = Checkpoint::open(*source).value();
  const WeightTensor& q = checkpoint.weight("model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(q.scale, kScale);
  EXPECT_EQ(checkpoint.weight("model.layers.0.self_attn.k_proj.weight").scale, 1.0F);
  std::vector<std::int8_t> codes(q.rows * q.columns);
  std::vector<float> scales(codes.size() / 16);
  std::vector<float> minima(scales.size());
  gguf::decode_codes(q.type, q.bytes, {codes, scales, minima});
  std::vector<std::int8_t> read_codes(q.columns);
  std::vector<float> read_scales(q.columns / 16);
  std::vector<float> read_minima(read_scales.size());
  q.read_codes(3, 0, {read_codes, read_scales, read_minima});
  std::vector<tensor::Bf16> read(q.columns);
  q.read_bf16(3, 0, read);
  for (std::size_t i = 0; i < q.columns; ++i) {
    const std::size_t at = 3 * q.columns + i;
    const float scale = scales[at / 16] * kScale;
    ASSERT_EQ(read_codes[i], codes[at]);
    ASSERT_EQ(read_scales[i / 16], scale);
    const float value = static_cast<float>(codes[at]) * scale;
    tensor::Bf16 rounded;
    tensor::to_bf16(&value, &rounded, 1);
    ASSERT_EQ(read[i].bits, rounded.bits);
  }
  const PackedFile file(*source);
  EXPECT_EQ(file.config().formats.layer(0).q, WeightFormat::kE2m1G16);
}

TEST(GgufFormats, RefuseScalesOfMatricesThatMeanNothing) {
  const auto refused = [](TensorType type, const std::string& name, float scale) {
    const auto source = gguf_checkpoint(shape_of_blocks(), [&](GgufParts& parts) {
      make_blocks(parts, [&](std::size_t) { return type; });
      parts.tensors.push_back(matrix_scale(name, scale));
    });
    const auto checkpoint = Checkpoint::open(*source);
    return checkpoint ? std::string() : checkpoint.error().message();
  };
  EXPECT_NE(refused(TensorType::kQ8_0, "blk.0.attn_q.scale", 2.0F).find("beside NVFP4 only"),
            std::string::npos);
  EXPECT_NE(refused(TensorType::kNVFP4, "token_embd.scale", 2.0F).find("expected none"),
            std::string::npos);
  for (const float scale : {0.0F, -1.0F, std::numeric_limits<float>::infinity(), 1e-38F}) {
    EXPECT_NE(refused(TensorType::kNVFP4, "blk.0.attn_q.scale", scale).find("2^-100 to 2^100"),
              std::string::npos)
        << scale;
  }
}

// As llama.cpp's Q4_K_M mixes them: some matrices of some layers in finer blocks, and the head.
TEST(GgufFormats, AreThoseOfEachMatrix) {
  TestShape shape = shape_of_blocks(1024);
  const auto open = [&](const auto& type_of) {
    const auto source = gguf_checkpoint(shape, [&](GgufParts& parts) {
      make_blocks(parts, [&](std::size_t i) { return type_of(parts.tensors[i].name); });
    });
    return Checkpoint::open(*source).value().stored_formats();
  };
  const WeightFormats mixed = open([](const std::string& name) {
    const bool is_fine =
        name == "output.weight" || name == "blk.1.ffn_down.weight" || name == "blk.1.attn_v.weight";
    return is_fine ? TensorType::kQ6_K : TensorType::kQ4_K;
  });
  LayerFormats fine = LayerFormats::all(WeightFormat::kInt4G32MinK);
  EXPECT_EQ(mixed.layer(0), fine);
  fine.v = fine.down = WeightFormat::kInt6G16K;
  EXPECT_EQ(mixed.layer(1), fine);
  EXPECT_EQ(mixed.embedding, WeightFormat::kInt4G32MinK);
  EXPECT_EQ(mixed.head, WeightFormat::kInt6G16K);
  EXPECT_EQ(describe(mixed),
            "int4-g32-min-k and int6-g16-k, head int6-g16-k, embedding int4-g32-min-k");
  const WeightFormats even = open([](const std::string&) { return TensorType::kQ5_K; });
  EXPECT_EQ(even, WeightFormats(WeightFormat::kInt5G32MinK, WeightFormat::kInt5G32MinK));
  EXPECT_EQ(describe(even), "int5-g32-min-k");
}

// The record that takes it from the planner to the leader has room for so much.
TEST(GgufFormats, AreDescribedInALineHoweverManyThereAre) {
  WeightFormats all(WeightFormat::kInt5G32MinK, WeightFormat::kInt4G32MinK);
  all.layers.clear();
  for (const WeightFormat format : kernels::kWeightFormats) {
    all.layers.push_back(LayerFormats::all(format));
  }
  all.embedding = WeightFormat::kInt6G16K;
  const std::string text = describe(all);
  EXPECT_TRUE(text.starts_with("bf16 and int8 and ")) << text;
  EXPECT_NE(
      text.find(" and " + std::to_string(kernels::kWeightFormats.size() - 6) + " more, head "),
      std::string::npos)
      << text;
  EXPECT_LE(text.size(), 256U);
}

TEST(GgufFormats, HaveOneLevelWhereALeafIsNoWholeSuperblock) {
  TestShape shape = shape_of_blocks(768);
  const auto formats = [&] {
    const auto source = gguf_checkpoint(shape, [&](GgufParts& parts) {
      make_blocks(parts, [](std::size_t) { return TensorType::kQ4_K; });
    });
    return Checkpoint::open(*source).value().stored_formats().layer(0);
  };
  LayerFormats expected = LayerFormats::all(WeightFormat::kInt4G32MinK);
  expected.down = WeightFormat::kInt4G32Min;
  EXPECT_EQ(formats(), expected);
  shape.heads = shape.kv_heads = 8;
  shape.head_dim = 32;
  expected.o = WeightFormat::kInt4G32Min;
  EXPECT_EQ(formats(), expected);
}

TEST(GgufFormats, AreBf16WhereALeafIsNoWholeGroup) {
  TestShape shape = shape_of_blocks();
  shape.heads = shape.kv_heads = 16;
  shape.head_dim = 16;
  const auto source = gguf_checkpoint(shape, [&](GgufParts& parts) {
    make_blocks(parts, [&](std::size_t) { return TensorType::kQ8_0; });
  });
  const Checkpoint checkpoint = Checkpoint::open(*source).value();
  EXPECT_EQ(checkpoint.stored_formats(),
            WeightFormats(WeightFormat::kBf16, WeightFormat::kInt8G32));
  EXPECT_EQ(checkpoint.codes_left("auto"),
            "all matrices of the layers are held as bf16, those with codes too: "
            "model.layers.0.self_attn.o_proj.weight has 16 columns for each group of heads, which "
            "is no multiple of 32");
}

TEST(GgufFormats, AreBf16WhereAMatrixOfALayerHasNoCodes) {
  const TestShape shape = shape_of_blocks();
  const auto without_codes = [&](const std::function<bool(const std::string&)>& is_plain) {
    const auto source = gguf_checkpoint(shape, [&](GgufParts& parts) {
      std::vector<GgufTensor> plain = parts.tensors;
      make_blocks(parts, [&](std::size_t) { return TensorType::kQ4_K; });
      for (std::size_t i = 0; i < plain.size(); ++i) {
        if (is_plain(plain[i].name)) {
          parts.tensors[i] = plain[i];
        }
      }
    });
    return Checkpoint::open(*source).value();
  };
  WeightFormats expected(WeightFormat::kBf16, WeightFormat::kBf16);
  expected.head = WeightFormat::kInt4G32MinK;
  const Checkpoint mixed = without_codes([](const std::string& name) {
    return name == "blk.1.attn_k.weight" || name == "token_embd.weight";
  });
  EXPECT_EQ(mixed.stored_formats(), expected);
  EXPECT_EQ(mixed.codes_left("auto"),
            "all matrices of the layers are held as bf16, those with codes too: "
            "model.layers.1.self_attn.k_proj.weight has none, it is BF16");
  EXPECT_EQ(mixed.codes_left("int4"), "") << "what was asked for";
  EXPECT_EQ(mixed.codes_left("bf16"), "") << "what was asked for";
  EXPECT_EQ(without_codes([](const std::string&) { return true; }).codes_left("auto"), "")
      << "there are none";
  EXPECT_EQ(without_codes([](const std::string& name) {
              return name == "token_embd.weight";
            }).codes_left("auto"),
            "")
      << "embedding and head stand for themselves";
}

// What filling an arena says of a file of one type, one of whose blocks `change` has changed: that
// in row 70 of the second layer's down_proj with the second block of columns.
Status filled_with(TensorType type,
                   const std::function<void(std::span<std::byte>)>& change,
                   std::uint32_t intermediate = 512) {
  const gguf::TypeTraits& traits = gguf::traits_of(type);
  const auto source = gguf_checkpoint(shape_of_blocks(intermediate), [&](GgufParts& parts) {
    make_blocks(parts, [&](std::size_t) { return type; });
    for (GgufTensor& tensor : parts.tensors) {
      if (tensor.name == "blk.1.ffn_down.weight") {
        const std::size_t block = 70 * (intermediate / traits.block_elements) + 1;
        change(std::span(tensor.bytes).subspan(block * traits.block_bytes, traits.block_bytes));
      }
    }
  });
  const Checkpoint checkpoint = Checkpoint::open(*source).value();
  ModelConfig config = checkpoint.config();
  config.formats = checkpoint.stored_formats();
  tensor::AlignedBuffer memory(model::layout_of(config).bytes, model::kArenaAlignment);
  const auto filled = model::fill_arena(checkpoint, config, memory.bytes(), {});
  return filled ? ok() : Status(filled.error());
}

// In the words of the file, whose row and column are not those of the leaf.
void expect_bad_scale(TensorType type, const Status& filled) {
  ASSERT_FALSE(filled.has_value());
  EXPECT_EQ(filled.error().code(), Code::kDataLoss);
  const std::string column = std::to_string(gguf::traits_of(type).block_elements);
  EXPECT_TRUE(filled.error().message().starts_with(
      "model.layers.1.mlp.down_proj.weight: row 70: the scale of column " + column + " "))
      << filled.error().message();
  EXPECT_NE(filled.error().message().find("infinite or NaN"), std::string::npos);
}

TEST(GgufFormats, RefuseScalesThatAreNoNumbers) {
  for (const TensorType type : kCodedTypes) {
    SCOPED_TRACE(gguf::traits_of(type).name);
    for (const std::uint32_t intermediate : {512U, 1024U}) {  // one level, and two
      expect_bad_scale(
          type,
          filled_with(
              type, [&](std::span<std::byte> block) { spoil_scale(type, block); }, intermediate));
    }
  }
}

// A scale of MXFP4 is judged by the numbers that it makes of its codes.
Status filled_with_mxfp4(int e, int codes) {
  return filled_with(TensorType::kMXFP4, [&](std::span<std::byte> block) {
    std::ranges::fill(block, std::byte{0});
    block[0] = static_cast<std::byte>(e);
    block[9] = static_cast<std::byte>(codes);
  });
}

// Infinite numbers in bf16 refuse a file; in codes they would fail the requests that meet them.
TEST(GgufFormats, RefuseScalesThatMakeInfiniteNumbers) {
  for (const auto& [e, most, beyond] : {std::tuple(252, 0x7F, -1),
                                        std::tuple(253, 0x55, 0x60),
                                        std::tuple(253, 0xD5, 0x0F),
                                        std::tuple(254, 0x33, 0x40),
                                        std::tuple(254, 0xBB, 0x0C)}) {
    EXPECT_TRUE(filled_with_mxfp4(e, most).has_value()) << e << " " << most;
    if (beyond >= 0) {
      expect_bad_scale(TensorType::kMXFP4, filled_with_mxfp4(e, beyond));
    }
  }
}

// A denormal scale would count as zero in a product.
TEST(GgufFormats, RefuseDenormalScalesButOfZeros) {
  for (const int e : {0, 1}) {
    expect_bad_scale(TensorType::kMXFP4, filled_with_mxfp4(e, 0x01));
    EXPECT_TRUE(filled_with_mxfp4(e, 0x00).has_value());
    EXPECT_TRUE(filled_with_mxfp4(e, 0x88).has_value()) << "zeros with a sign";
  }
}

TEST(GgufFormats, DecodeAlikeInTheFloatModeOfKernels) {
  std::mt19937_64 random(3);
  for (const TensorType type : kCodedTypes) {
    const gguf::TypeTraits& traits = gguf::traits_of(type);
    std::vector<std::byte> bytes(1024 * std::size_t{traits.block_bytes});
    std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random() & 255U); });
    std::vector<float> expected(1024 * std::size_t{traits.block_elements});
    std::vector<float> found(expected.size());
    gguf::decode(type, bytes, expected);
    {
      const kernels::FloatModeScope mode;
      gguf::decode(type, bytes, found);
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!std::isnan(expected[i])) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(found[i]), std::bit_cast<std::uint32_t>(expected[i]))
            << traits.name << " " << i;
      }
    }
  }
}

TEST(GgufFormats, ReadCodesFromAnyGroup) {
  constexpr std::uint64_t kRows = 3;
  constexpr std::uint64_t kColumns = 2560;  // more than is decoded at once
  for (const TensorType type : kCodedTypes) {
    const std::vector<std::byte> bytes = random_blocks(type, kRows * kColumns, 4);
    std::vector<float> values(kRows * kColumns);
    gguf::decode(type, bytes, values);
    const WeightTensor weight{"w", type, kRows, kColumns, bytes, 0};
    for (const auto& [first, count] : std::vector<std::pair<std::size_t, std::size_t>>{
             {0, kColumns}, {16, 16}, {240, 32}, {304, 1024}, {1008, 1552}, {2544, 16}}) {
      std::vector<std::int8_t> codes(count);
      std::vector<float> scales(count / 16);
      std::vector<float> minima(count / 16);
      weight.read_codes(2, first, {codes, scales, minima});
      for (std::size_t i = 0; i < count; ++i) {
        const float product = scales[i / 16] * static_cast<float>(codes[i]);
        ASSERT_EQ(product - minima[i / 16], values[2 * kColumns + first + i])
            << gguf::traits_of(type).name << " " << first << "+" << i;
      }
    }
  }
}

TEST(GgufFormats, ReadCodesInTwoLevelsFromAnySuperblock) {
  constexpr std::uint64_t kColumns = 2560;
  for (const TensorType type : {TensorType::kQ2_K,
                                TensorType::kQ3_K,
                                TensorType::kQ4_K,
                                TensorType::kQ5_K,
                                TensorType::kQ6_K}) {
    const std::vector<std::byte> bytes = random_blocks(type, kColumns, 4);
    std::vector<float> values(kColumns);
    gguf::decode(type, bytes, values);
    const WeightTensor weight{"w", type, 1, kColumns, bytes, 0};
    for (const auto& [first, count] : std::vector<std::pair<std::size_t, std::size_t>>{
             {0, kColumns}, {64, 64}, {192, 192}, {320, 1024}, {960, 1600}, {2496, 64}}) {
      std::vector<std::int8_t> codes(count);
      std::vector<float> scales(count / 16);
      std::vector<float> minima(count / 16);
      std::vector<float> superscales(count / 64);
      std::vector<float> superminima(count / 64);
      weight.read_codes(0, first, {codes, scales, minima, superscales, superminima});
      for (std::size_t i = 0; i < count; ++i) {
        const float scale = superscales[i / 64] * scales[i / 16];
        ASSERT_EQ(scale * static_cast<float>(codes[i]) - superminima[i / 64] * minima[i / 16],
                  values[first + i])
            << gguf::traits_of(type).name << " " << first << "+" << i;
        ASSERT_EQ(scales[i / 16], static_cast<float>(static_cast<std::int8_t>(scales[i / 16])));
        ASSERT_EQ(minima[i / 16], static_cast<float>(static_cast<std::int8_t>(minima[i / 16])));
      }
    }
  }
}

}  // namespace
}  // namespace phalanx::checkpoint
