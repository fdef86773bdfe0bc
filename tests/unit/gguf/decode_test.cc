// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/base/hash.h"
#include "phalanx/gguf/tensor_type.h"

#include "source_dir.h"

namespace phalanx::gguf {
namespace {

const TypeTraits* type_named(const std::string& name) {
  for (std::uint32_t number = 0; number < 64; ++number) {
    const TypeTraits* traits = find_type(number);
    if (traits != nullptr && traits->name == name) {
      return traits;
    }
  }
  return nullptr;
}

std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoul(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// The stream that tools/make_gguf_goldens makes its random blocks of.
std::vector<std::byte> splitmix(std::uint64_t seed, std::size_t count) {
  std::vector<std::byte> bytes;
  for (std::uint64_t state = seed; bytes.size() < count;) {
    state += 0x9E3779B97F4A7C15ULL;
    std::uint64_t word = mix64(state);
    for (int i = 0; i < 8 && bytes.size() < count; ++i, word >>= 8) {
      bytes.push_back(static_cast<std::byte>(word & 0xFF));
    }
  }
  return bytes;
}

std::vector<std::uint32_t> decoded_bits(const TypeTraits& traits,
                                        const std::vector<std::byte>& blocks) {
  std::vector<float> values(blocks.size() / traits.block_bytes * traits.block_elements, 12345.0F);
  decode(traits.type, blocks, values);
  std::vector<std::uint32_t> bits;
  for (const float value : values) {
    bits.push_back(std::isnan(value) ? 0x7FC00000U : std::bit_cast<std::uint32_t>(value));
  }
  return bits;
}

std::uint64_t fnv1a(const std::vector<std::uint32_t>& words) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (std::uint32_t word : words) {
    for (int i = 0; i < 4; ++i, word >>= 8) {
      hash = (hash ^ (word & 0xFFU)) * 0x100000001B3ULL;
    }
  }
  return hash;
}

// One line of the goldens: kind, type and the rest, whose meaning tools/make_gguf_goldens says.
void check_line(const std::string& line) {
  std::istringstream stream(line);
  std::string kind;
  std::string type;
  std::string first;
  std::string second;
  stream >> kind >> type >> first >> second;
  const TypeTraits* traits = type_named(type);
  ASSERT_NE(traits, nullptr) << type;
  ASSERT_TRUE(traits->decodable) << type;
  if (kind == "random") {
    std::string hash;
    stream >> hash;
    const auto blocks = splitmix(std::stoull(first), std::stoull(second) * traits->block_bytes);
    EXPECT_EQ(fnv1a(decoded_bits(*traits, blocks)), std::stoull(hash, nullptr, 16)) << line;
  } else if (kind == "block") {
    const auto bits = decoded_bits(*traits, from_hex(first));
    EXPECT_EQ(fnv1a(bits), std::stoull(second, nullptr, 16)) << line;
  } else {
    ASSERT_EQ(kind, "values");
    const auto bits = decoded_bits(*traits, from_hex(first));
    ASSERT_EQ(second.size(), 8 * bits.size());
    for (std::size_t i = 0; i < bits.size(); ++i) {
      EXPECT_EQ(bits[i], std::stoul(second.substr(8 * i, 8), nullptr, 16))
          << type << " element " << i;
    }
  }
}

TEST(Decode, EqualsLlamaCppBitForBit) {
  std::ifstream file(std::string(PHALANX_SOURCE_DIR) + "/tests/unit/gguf/goldens/decode.txt");
  ASSERT_TRUE(file.is_open());
  std::map<std::string, int> lines_of;
  std::string line;
  while (std::getline(file, line)) {
    check_line(line);
    const std::size_t name = line.find(' ') + 1;
    ++lines_of[line.substr(name, line.find(' ', name) - name)];
  }
  for (std::uint32_t number = 0; number < 64; ++number) {
    const TypeTraits* traits = find_type(number);
    if (traits != nullptr && traits->decodable) {
      EXPECT_NE(lines_of[std::string(traits->name)], 0) << traits->name << " has no golden";
    }
  }
}

TEST(Decode, ConvertsEveryHalfExactly) {
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const std::vector<std::byte> block = {static_cast<std::byte>(pattern & 0xFF),
                                          static_cast<std::byte>(pattern >> 8)};
    float value = 0.0F;
    decode(TensorType::kF16, block, std::span(&value, 1));
    const std::uint32_t exponent = (pattern >> 10) & 31;
    const auto mantissa = static_cast<double>(pattern & 1023);
    const double sign = (pattern & 0x8000) != 0 ? -1.0 : 1.0;
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), mantissa != 0) << pattern;
      EXPECT_EQ(std::isinf(value), mantissa == 0) << pattern;
      continue;
    }
    const double magnitude = exponent == 0
                                 ? std::ldexp(mantissa, -24)
                                 : std::ldexp(1024.0 + mantissa, static_cast<int>(exponent) - 25);
    EXPECT_EQ(static_cast<double>(value), sign * magnitude) << pattern;
    EXPECT_EQ(std::signbit(value), (pattern & 0x8000) != 0) << pattern;
  }
}

// Every exponent of MXFP4 over every code. From 253 on the largest are infinite.
TEST(Decode, GivesMxfp4ScalesThatAreNormalOrNone) {
  std::vector<std::byte> block(17);
  for (std::size_t j = 0; j < 16; ++j) {
    block[1 + j] = static_cast<std::byte>(j | (15 - j) << 4);
  }
  for (int e = 0; e < 256; ++e) {
    block[0] = static_cast<std::byte>(e);
    std::vector<float> values(32);
    decode(TensorType::kMXFP4, block, values);
    std::vector<std::int8_t> codes(32);
    std::vector<float> scales(2);
    std::vector<float> minima(2, 1.0F);
    decode_codes(TensorType::kMXFP4, block, {codes, scales, minima});
    EXPECT_EQ(minima, std::vector<float>(2));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(scales[0]), std::bit_cast<std::uint32_t>(scales[1]));
    for (std::size_t i = 0; i < 32; ++i) {
      const auto exact = static_cast<float>(std::ldexp(codes[i], e - 128));
      if (e < 255) {
        EXPECT_EQ(values[i], exact) << e << " " << i;
      } else {
        EXPECT_TRUE(std::isnan(values[i])) << i;
      }
    }
    if (e < 2 || e >= 253) {
      EXPECT_TRUE(std::isnan(scales[0])) << e;
    } else {
      EXPECT_EQ(scales[0], std::ldexp(1.0F, e - 128)) << e;
    }
  }
}

// Each code of MXFP4 alone in its block: a scale is one where the number is.
TEST(Decode, GivesLargeMxfp4ScalesWhereNoNumberIsInfinite) {
  for (int e = 250; e < 256; ++e) {
    for (int code = 0; code < 16; ++code) {
      std::vector<std::byte> block(17);
      block[0] = static_cast<std::byte>(e);
      block[16] = static_cast<std::byte>(code << 4);
      std::vector<float> values(32);
      decode(TensorType::kMXFP4, block, values);
      std::vector<std::int8_t> codes(32);
      std::vector<float> scales(2);
      std::vector<float> minima(2);
      decode_codes(TensorType::kMXFP4, block, {codes, scales, minima});
      EXPECT_EQ(std::isfinite(scales[0]), std::isfinite(values[31])) << e << " " << code;
      if (std::isfinite(scales[0])) {
        EXPECT_EQ(scales[0], std::ldexp(1.0F, e - 128)) << e << " " << code;
      }
    }
  }
}

// Every scale of NVFP4 over every code, in another group for each of four.
TEST(Decode, GivesNvfp4NumbersWithoutASignOrNone) {
  std::vector<std::byte> block(36);
  for (std::size_t j = 0; j < 32; ++j) {
    block[4 + j] = static_cast<std::byte>(j % 8 | (15 - j % 8) << 4);
  }
  constexpr std::array kCodes = {0, 1, 2, 3, 4, 6, 8, 12, -12, -8, -6, -4, -3, -2, -1, 0};
  for (std::size_t e = 0; e < 256; ++e) {
    for (std::size_t i = 0; i < 4; ++i) {
      block[i] = static_cast<std::byte>((e + 64 * i) % 256);
    }
    std::vector<float> values(64);
    decode(TensorType::kNVFP4, block, values);
    for (std::size_t i = 0; i < 64; ++i) {
      const auto scale = static_cast<std::uint32_t>(block[i / 16]);
      const double number =
          scale < 8 ? std::ldexp(scale, -9)
                    : std::ldexp(1.0 + scale % 8 / 8.0, static_cast<int>(scale / 8) - 7);
      if (scale < 127) {
        EXPECT_EQ(values[i], static_cast<float>(number * kCodes[i % 16] / 2)) << e << " " << i;
      } else {
        EXPECT_TRUE(std::isnan(values[i])) << e << " " << i;
      }
    }
  }
}

TEST(Decode, ReadsBlocksAtAnyAddress) {
  const TypeTraits& traits = traits_of(TensorType::kQ6_K);
  const auto blocks = splitmix(77, 3 * traits.block_bytes);
  const auto expected = decoded_bits(traits, blocks);
  std::vector<std::byte> shifted(blocks.size() + 1);
  std::copy(blocks.begin(), blocks.end(), shifted.begin() + 1);
  std::vector<float> values(expected.size());
  decode(traits.type, std::span(shifted).subspan(1), values);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!std::isnan(values[i])) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(values[i]), expected[i]) << i;
    }
  }
}

TEST(TensorTypes, AreNamedAndSized) {
  EXPECT_EQ(find_type(4), nullptr);  // taken back by the format
  EXPECT_EQ(find_type(1000), nullptr);
  ASSERT_NE(find_type(15), nullptr);
  EXPECT_EQ(find_type(15)->name, "Q8_K");
  EXPECT_FALSE(find_type(15)->decodable);
  EXPECT_EQ(traits_of(TensorType::kQ4_K).block_elements, 256U);
  EXPECT_EQ(traits_of(TensorType::kQ4_K).block_bytes, 144U);
  EXPECT_EQ(decodable_types(),
            "F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, "
            "IQ2_XXS, IQ2_XS, IQ3_XXS, IQ1_S, IQ4_NL, IQ3_S, IQ2_S, IQ4_XS, IQ1_M, BF16, TQ1_0, "
            "TQ2_0, MXFP4, NVFP4, Q1_0, Q2_0");
}

TEST(DecodeDeathTest, RefusesSizesThatDoNotBelongTogether) {
  const std::vector<std::byte> block(17);
  std::vector<float> values(32);
  EXPECT_DEATH(decode(TensorType::kQ4_0, block, values), "do not belong together");
}

}  // namespace
}  // namespace phalanx::gguf
