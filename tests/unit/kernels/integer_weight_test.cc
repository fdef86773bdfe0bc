// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "integer_inputs.h"

namespace phalanx::kernels {
namespace {

constexpr float kF16Largest = 65504.0F;

float to_f16_and_back(float x) {
  return std::clamp(tensor::to_float(tensor::to_f16(x)), -kF16Largest, kF16Largest);
}

// By the definition, from the elements that one scale is for.
float expected_scale(WeightFormat format, std::span<const Bf16> elements) {
  float peak = 0.0F;
  for (const Bf16 element : elements) {
    const float value = tensor::to_float(element);
    peak = std::abs(value) > std::abs(peak) ? value : peak;
  }
  if (std::abs(peak) < 0x1p-100F) {
    return 0.0F;
  }
  switch (format) {
    case WeightFormat::kBf16:
      return 1.0F;
    case WeightFormat::kInt8:
      return std::abs(peak) / 127.0F;
    case WeightFormat::kInt8G32:
      return to_f16_and_back(std::abs(peak) / 127.0F);
    case WeightFormat::kInt4:
      return to_f16_and_back(peak / -8.0F);
    default:
      break;
  }
  return 0.0F;
}

std::int32_t expected_code(WeightFormat format, Bf16 element, float scale) {
  if (scale == 0.0F) {
    return 0;
  }
  const float nearest = std::nearbyint(tensor::to_float(tensor::canonical(element)) / scale);
  const bool is_int4 = format == WeightFormat::kInt4;
  return static_cast<std::int32_t>(
      std::clamp(nearest, is_int4 ? -8.0F : -127.0F, is_int4 ? 7.0F : 127.0F));
}

void expect_packed(WeightFormat format, std::size_t columns, std::size_t k, Kind kind) {
  SCOPED_TRACE(std::string(weight_format_name(format)) + " " + std::to_string(k));
  const std::vector<Bf16> weight = bf16s(columns * k, k, kind);
  PackedBytes packed(weight_bytes(format, k, columns));
  std::ranges::fill(packed.bytes(), std::byte{0x77});
  pack_weight({weight.data(), columns, k, k}, format, packed.bytes());
  const std::uint32_t bias = format == WeightFormat::kInt4 ? 8 : 128;
  for (std::size_t column = 0; column < padded_columns(columns); ++column) {
    for (std::size_t i = 0; i < padded_k(k); ++i) {
      const std::size_t begin = format == WeightFormat::kInt8 ? 0 : i / 32 * 32;
      const std::size_t end = format == WeightFormat::kInt8 ? k : std::min(begin + 32, k);
      const float scale = scale_of(format, packed.data(), k, i, column);
      if (column >= columns) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(scale), 0U);
        ASSERT_EQ(stored_code(format, packed.data(), k, i, column), bias);
        continue;
      }
      const auto elements =
          std::span(weight).subspan(column * k + begin, end > begin ? end - begin : 0);
      ASSERT_EQ(scale, expected_scale(format, elements));
      ASSERT_EQ(code_of(format, packed.data(), k, i, column),
                i < k ? expected_code(format, weight[column * k + i], scale) : 0);
    }
  }
}

TEST(PackIntegers, CodesByTheDefinition) {
  for (const WeightFormat format : kMadeFormats) {
    for (const Kind kind : {Kind::kOrdinary, Kind::kExtreme}) {
      for (const std::size_t k : {1U, 31U, 32U, 33U, 64U, 100U, 161U}) {
        expect_packed(format, 20, k, kind);
      }
    }
  }
}

TEST(PackIntegers, DoesNotDependOnTheFloatMode) {
  for (const WeightFormat format : kMadeFormats) {
    const std::vector<Bf16> weight = bf16s(20 * 100, 3, Kind::kExtreme);
    PackedBytes plain(weight_bytes(format, 100, 20));
    PackedBytes in_mode(weight_bytes(format, 100, 20));
    pack_weight({weight.data(), 20, 100, 100}, format, plain.bytes());
    const FloatModeScope mode;
    pack_weight({weight.data(), 20, 100, 100}, format, in_mode.bytes());
    EXPECT_TRUE(std::ranges::equal(plain.bytes(), in_mode.bytes()));
  }
}

TEST(PackIntegers, PacksRangesOfStripsAsTheWhole) {
  for (const WeightFormat format : kMadeFormats) {
    const std::vector<Bf16> weight = bf16s(50 * 40, 4, Kind::kOrdinary);
    const tensor::MatrixView<const Bf16> from{weight.data(), 50, 40, 40};
    PackedBytes whole(weight_bytes(format, 40, 50));
    PackedBytes parts(weight_bytes(format, 40, 50));
    pack_weight(from, format, whole.bytes());
    const std::size_t half = weight_bytes(format, 40, 32);
    EXPECT_EQ(half, 2 * weight_bytes(format, 40, 16));
    EXPECT_EQ(half % 64, 0U);
    EXPECT_TRUE(pack_weight_strips(from, 0, format, parts.bytes().first(half)).has_value());
    EXPECT_TRUE(pack_weight_strips(from, 32, format, parts.bytes().subspan(half)).has_value());
    EXPECT_TRUE(std::ranges::equal(parts.bytes(), whole.bytes()));
  }
}

TEST(PackIntegers, RefusesWhatIsNotFiniteAndNamesTheColumn) {
  for (const WeightFormat format : kMadeFormats) {
    for (const std::uint32_t bits : {0x7F80U, 0xFF80U, 0x7FC0U, 0x7F81U}) {
      std::vector<Bf16> weight(40 * 64);
      weight[37 * 64 + 5].bits = static_cast<std::uint16_t>(bits);
      PackedBytes packed(weight_bytes(format, 64, 16));
      const tensor::MatrixView<const Bf16> from{weight.data(), 40, 64, 64};
      EXPECT_TRUE(pack_weight_strips(from, 0, format, packed.bytes()).has_value());
      const Status refused = pack_weight_strips(from, 32, format, packed.bytes());
      ASSERT_FALSE(refused.has_value());
      EXPECT_EQ(refused.error().code(), Code::kDataLoss);
      EXPECT_EQ(refused.error().message(),
                "row 37: column 5 is infinite or NaN, which " +
                    std::string(weight_format_name(format)) + " cannot code");
    }
  }
}

constexpr std::array kCodedFormats = {WeightFormat::kInt8G32,
                                      WeightFormat::kInt4,
                                      WeightFormat::kInt8G16,
                                      WeightFormat::kInt5G32,
                                      WeightFormat::kInt5G32Min,
                                      WeightFormat::kInt4G32Min,
                                      WeightFormat::kInt8G16Min,
                                      WeightFormat::kInt6G16K,
                                      WeightFormat::kInt5G32MinK,
                                      WeightFormat::kInt4G32MinK,
                                      WeightFormat::kInt4G16MinK,
                                      WeightFormat::kInt4G16K,
                                      WeightFormat::kIq4G32,
                                      WeightFormat::kE2m1G32,
                                      WeightFormat::kE2m1G16,
                                      WeightFormat::kIq3XxsG32,
                                      WeightFormat::kIq3SG32,
                                      WeightFormat::kIq2G32,
                                      WeightFormat::kIq2G16};

TEST(PackCodes, KeepsEveryCodeScaleAndMinimum) {
  constexpr std::size_t kColumns = 37;
  constexpr std::size_t kInputs = 160;
  for (const WeightFormat format : kCodedFormats) {
    SCOPED_TRACE(weight_format_name(format));
    const TestCodes from(format, kColumns, kInputs, 5, Kind::kExtreme);
    PackedBytes packed(weight_bytes(format, kInputs, kColumns));
    ASSERT_TRUE(pack_coded_strips(from.view, format, packed.bytes()).has_value());
    const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
    const std::uint32_t group = traits_of(format).group;
    for (std::size_t column = 0; column < 48; ++column) {
      for (std::size_t k = 0; k < kInputs; ++k) {
        const bool exists = column < kColumns;
        const std::size_t at = column * kInputs + k;
        const std::size_t first = k - k % group;
        ASSERT_EQ(code_of(format, packed.data(), kInputs, k, column),
                  exists ? from.codes[at] : code_of(format, bias_of(format)));
        ASSERT_EQ(bits(scale_of(format, packed.data(), kInputs, k, column)),
                  exists ? bits(from.scale(column, first)) : 0U);
        ASSERT_EQ(bits(minimum_of(format, packed.data(), kInputs, k, column)),
                  exists && traits_of(format).has_minima ? bits(from.minimum(column, first)) : 0U);
      }
    }
  }
}

TEST(PackCodes, RefusesAScaleOrMinimumThatIsNotFinite) {
  for (const WeightFormat format : kCodedFormats) {
    TestCodes from(format, 3, 96, 5, Kind::kOrdinary);
    PackedBytes packed(weight_bytes(format, 96, 3));
    EXPECT_TRUE(pack_coded_strips(from.view, format, packed.bytes()).has_value());
    for (std::vector<float>* numbers :
         {&from.scales, &from.minima, &from.superscales, &from.superminima}) {
      for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
        if (numbers->empty()) {
          continue;
        }
        const bool shared = numbers == &from.superscales || numbers == &from.superminima;
        float& at = (*numbers)[shared ? 2 * 2 + 1 : 2 * 96 / 16 + 4];
        const float before = at;
        at = bad;
        const Status refused = pack_coded_strips(from.view, format, packed.bytes());
        at = before;
        ASSERT_FALSE(refused.has_value());
        EXPECT_EQ(refused.error().code(), Code::kDataLoss);
        EXPECT_NE(refused.error().message().find("row 2: the scale of column 64 is infinite"),
                  std::string::npos)
            << refused.error().message();
      }
    }
  }
}

TEST(CheckWeight, RefusesALeafTooLongForItsSums) {
  EXPECT_TRUE(check_weight({WeightFormat::kInt4, 131072, 16, nullptr}).has_value());
  EXPECT_FALSE(check_weight({WeightFormat::kInt4, 131073, 16, nullptr}).has_value());
  EXPECT_TRUE(check_weight({WeightFormat::kBf16, 131073, 16, nullptr}).has_value());
}

TEST(Embedding, ReadsRowsOfIntegers) {
  constexpr std::uint32_t kVocab = 37;
  constexpr std::uint32_t kHidden = 40;
  for (const WeightFormat format : kIntegerFormats) {
    PackedBytes packed(weight_bytes(format, kHidden, kVocab));
    pack_test_weight(format, kVocab, kHidden, 5, Kind::kOrdinary, packed.bytes());
    std::vector<TokenId> tokens;
    for (TokenId token = kVocab - 1; token >= 0; --token) {
      tokens.push_back(token);
    }
    std::vector<float> x(tokens.size() * kHidden);
    const EmbeddingArgs args{
        {format, kHidden, kVocab, packed.data()}, tokens.data(), kVocab, x.data(), kHidden};
    ASSERT_TRUE(check_embedding(args).has_value());
    for (std::uint32_t tile = 0; tile < row_tiles(kVocab); ++tile) {
      embedding(args, tile);
    }
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      const auto column = static_cast<std::size_t>(tokens[row]);
      for (std::size_t i = 0; i < kHidden; ++i) {
        const float product =
            static_cast<float>(code_of(format, packed.data(), kHidden, i, column)) *
            scale_of(format, packed.data(), kHidden, i, column);
        ASSERT_EQ(x[row * kHidden + i],
                  product - minimum_of(format, packed.data(), kHidden, i, column));
      }
    }
  }
}

}  // namespace
}  // namespace phalanx::kernels
