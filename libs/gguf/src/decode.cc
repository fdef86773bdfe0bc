// SPDX-License-Identifier: Apache-2.0
// The formulas of tensor_type.h, one function for each type and block. Loops have fixed counts and
// no branches, so that the compiler vectorises them.
#include <array>
#include <bit>
#include <cstring>

#include "phalanx/base/check.h"
#include "phalanx/gguf/tensor_type.h"

#include "numbers.h"

namespace phalanx::gguf {
namespace {

constexpr std::size_t kSmall = 32;  // elements of a block of the older types
constexpr std::size_t kHalfBytes = 2;

std::uint32_t u8(const std::byte* from, std::size_t index) {
  return std::to_integer<std::uint32_t>(from[index]);
}

float as_float(std::uint32_t integer) {
  return static_cast<float>(static_cast<std::int32_t>(integer));
}

// Exact; a NaN becomes a quiet NaN of its sign. Integer operations only, so that a thread that
// flushes denormals reads the same.
float half_at(const std::byte* from) {
  const std::uint32_t bits = load<std::uint16_t>(from);
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  std::uint32_t exponent = (bits >> 10) & 0x1FU;
  std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0x1F) {
    return std::bit_cast<float>(sign | (mantissa != 0 ? 0x7FC00000U : 0x7F800000U));
  }
  if (exponent == 0 && mantissa == 0) {
    return std::bit_cast<float>(sign);
  }
  if (exponent == 0) {
    // Denormal: shift the leading one to the place that a normal number has it in.
    const auto shift = static_cast<std::uint32_t>(std::countl_zero(mantissa)) - 21U;
    mantissa = (mantissa << shift) & 0x3FFU;
    exponent = 1U - shift;  // may wrap; the bias below brings it back
  }
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (mantissa << 13));
}

void block_f32(const std::byte* block, float* out) {
  std::memcpy(out, block, sizeof(float));
}

void block_f16(const std::byte* block, float* out) {
  *out = half_at(block);
}

void block_bf16(const std::byte* block, float* out) {
  *out = std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(block)) << 16);
}

void block_q8_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  const std::byte* q = block + kHalfBytes;
  for (std::size_t i = 0; i < kSmall; ++i) {
    out[i] = d * static_cast<float>(static_cast<std::int8_t>(q[i]));
  }
}

void block_q4_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  const std::byte* q = block + kHalfBytes;
  for (std::size_t j = 0; j < kSmall / 2; ++j) {
    out[j] = d * as_float((u8(q, j) & 15U) - 8U);
    out[j + kSmall / 2] = d * as_float((u8(q, j) >> 4) - 8U);
  }
}

void block_q4_1(const std::byte* block, float* out) {
  const float d = half_at(block);
  const float m = half_at(block + kHalfBytes);
  const std::byte* q = block + 2 * kHalfBytes;
  for (std::size_t j = 0; j < kSmall / 2; ++j) {
    out[j] = d * as_float(u8(q, j) & 15U) + m;
    out[j + kSmall / 2] = d * as_float(u8(q, j) >> 4) + m;
  }
}

// The 5-bit integers of a block: nibbles at `q`, the bits above them in `high`.
std::array<std::uint32_t, kSmall> five_bits(std::uint32_t high, const std::byte* q) {
  std::array<std::uint32_t, kSmall> integers;
  for (std::uint32_t j = 0; j < kSmall / 2; ++j) {
    integers[j] = (u8(q, j) & 15U) | ((high >> j) & 1U) << 4;
    integers[j + kSmall / 2] = (u8(q, j) >> 4) | ((high >> (j + kSmall / 2)) & 1U) << 4;
  }
  return integers;
}

void block_q5_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  const auto high = load<std::uint32_t>(block + kHalfBytes);
  const auto q = five_bits(high, block + kHalfBytes + sizeof(high));
  for (std::size_t i = 0; i < kSmall; ++i) {
    out[i] = d * as_float(q[i] - 16U);
  }
}

void block_q5_1(const std::byte* block, float* out) {
  const float d = half_at(block);
  const float m = half_at(block + kHalfBytes);
  const auto high = load<std::uint32_t>(block + 2 * kHalfBytes);
  const auto q = five_bits(high, block + 2 * kHalfBytes + sizeof(high));
  for (std::size_t i = 0; i < kSmall; ++i) {
    out[i] = d * as_float(q[i]) + m;
  }
}

constexpr std::size_t kRuns = 8;  // of 32 elements in a block of Q4_K and Q5_K

// (d·s, dmin·n) of a run.
struct RunScale {
  float scale = 0.0F;
  float minimum = 0.0F;
};

std::array<RunScale, kRuns> run_scales(const std::byte* block) {
  const float d = half_at(block);
  const float dmin = half_at(block + kHalfBytes);
  const std::byte* c = block + 2 * kHalfBytes;
  std::array<RunScale, kRuns> scales;
  for (std::size_t r = 0; r < kRuns; ++r) {
    std::uint32_t s = 0;
    std::uint32_t n = 0;
    if (r < 4) {
      s = u8(c, r) & 63U;
      n = u8(c, r + 4) & 63U;
    } else {
      s = (u8(c, r + 4) & 15U) | (u8(c, r - 4) >> 6) << 4;
      n = (u8(c, r + 4) >> 4) | (u8(c, r) >> 6) << 4;
    }
    scales[r] = {d * as_float(s), dmin * as_float(n)};
  }
  return scales;
}

constexpr std::size_t kScaleBytes = 12;

void block_q4_k(const std::byte* block, float* out) {
  const auto scales = run_scales(block);
  const std::byte* q = block + 2 * kHalfBytes + kScaleBytes;
  for (std::size_t r = 0; r < kRuns; ++r) {
    const RunScale run = scales[r];
    const std::byte* nibbles = q + r / 2 * 32;
    const std::uint32_t shift = r % 2 == 0 ? 0 : 4;
    for (std::size_t j = 0; j < 32; ++j) {
      out[32 * r + j] = run.scale * as_float((u8(nibbles, j) >> shift) & 15U) - run.minimum;
    }
  }
}

void block_q5_k(const std::byte* block, float* out) {
  const auto scales = run_scales(block);
  const std::byte* high = block + 2 * kHalfBytes + kScaleBytes;
  const std::byte* q = high + 32;
  for (std::size_t r = 0; r < kRuns; ++r) {
    const RunScale run = scales[r];
    const std::byte* nibbles = q + r / 2 * 32;
    const std::uint32_t shift = r % 2 == 0 ? 0 : 4;
    for (std::size_t j = 0; j < 32; ++j) {
      const std::uint32_t integer = ((u8(nibbles, j) >> shift) & 15U) | ((u8(high, j) >> r) & 1U)
                                                                            << 4;
      out[32 * r + j] = run.scale * as_float(integer) - run.minimum;
    }
  }
}

void block_q6_k(const std::byte* block, float* out) {
  const std::byte* low = block;
  const std::byte* high = block + 128;
  const std::byte* s = block + 192;
  const float d = half_at(block + 208);
  for (std::size_t run = 0; run < 8; ++run) {  // of 32 elements
    const std::size_t half = run / 4;
    const std::size_t a = run % 4;
    const std::byte* nibbles = low + 64 * half + 32 * (a & 1U);
    const std::byte* tops = high + 32 * half;
    const std::uint32_t shift = a < 2 ? 0 : 4;
    for (std::size_t j = 0; j < 32; ++j) {
      const std::size_t element = 32 * run + j;
      const float scale = d * static_cast<float>(static_cast<std::int8_t>(s[element / 16]));
      const std::uint32_t integer =
          ((u8(nibbles, j) >> shift) & 15U) | ((u8(tops, j) >> (2 * a)) & 3U) << 4;
      out[element] = scale * as_float(integer - 32U);
    }
  }
}

using BlockFunction = void (*)(const std::byte* block, float* out);

template <BlockFunction function>
void each_block(const TypeTraits& traits, const std::byte* block, std::span<float> out) {
  for (std::size_t at = 0; at < out.size(); at += traits.block_elements) {
    function(block, out.data() + at);
    block += traits.block_bytes;
  }
}

}  // namespace

void decode(TensorType type, std::span<const std::byte> blocks, std::span<float> out) {
  const TypeTraits& traits = traits_of(type);
  PHALANX_CHECK(out.size() % traits.block_elements == 0 &&
                    blocks.size() == out.size() / traits.block_elements * traits.block_bytes,
                "blocks and elements that do not belong together");
  switch (type) {
    case TensorType::kF32:
      return each_block<block_f32>(traits, blocks.data(), out);
    case TensorType::kF16:
      return each_block<block_f16>(traits, blocks.data(), out);
    case TensorType::kBF16:
      return each_block<block_bf16>(traits, blocks.data(), out);
    case TensorType::kQ8_0:
      return each_block<block_q8_0>(traits, blocks.data(), out);
    case TensorType::kQ4_0:
      return each_block<block_q4_0>(traits, blocks.data(), out);
    case TensorType::kQ4_1:
      return each_block<block_q4_1>(traits, blocks.data(), out);
    case TensorType::kQ5_0:
      return each_block<block_q5_0>(traits, blocks.data(), out);
    case TensorType::kQ5_1:
      return each_block<block_q5_1>(traits, blocks.data(), out);
    case TensorType::kQ4_K:
      return each_block<block_q4_k>(traits, blocks.data(), out);
    case TensorType::kQ5_K:
      return each_block<block_q5_k>(traits, blocks.data(), out);
    case TensorType::kQ6_K:
      return each_block<block_q6_k>(traits, blocks.data(), out);
  }
  PHALANX_CHECK(false, "a tensor type that cannot be decoded");
}

}  // namespace phalanx::gguf
