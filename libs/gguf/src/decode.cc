// SPDX-License-Identifier: Apache-2.0
// The formulas of tensor_type.h, one function for each type and block. Loops have fixed counts and
// no branches, so that the compiler vectorises them.
#include <algorithm>
#include <bit>
#include <cstring>

#include "phalanx/base/check.h"
#include "phalanx/gguf/tensor_type.h"

#include "block_codes.h"

namespace phalanx::gguf {
namespace {

void block_f32(const std::byte* block, float* out) {
  std::memcpy(out, block, sizeof(float));
}

void block_f16(const std::byte* block, float* out) {
  *out = half_at(block);
}

void block_bf16(const std::byte* block, float* out) {
  *out = std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(block)) << 16);
}

void codes_q8_0(const std::byte* block, BlockCodes& out) {
  out.set_run(0, half_at(block), 0.0F);
  std::memcpy(out.codes.data(), block + kHalfBytes, kSmall);
}

// Nibbles of 32 elements less `bias`.
void small_nibbles(const std::byte* q, std::uint32_t bias, BlockCodes& out) {
  for (std::size_t j = 0; j < kSmall / 2; ++j) {
    out.set(j, (u8(q, j) & 15U) - bias);
    out.set(j + kSmall / 2, (u8(q, j) >> 4) - bias);
  }
}

void codes_q4_0(const std::byte* block, BlockCodes& out) {
  out.set_run(0, half_at(block), 0.0F);
  small_nibbles(block + kHalfBytes, 8, out);
}

void codes_q4_1(const std::byte* block, BlockCodes& out) {
  out.set_run(0, half_at(block), -half_at(block + kHalfBytes));
  small_nibbles(block + 2 * kHalfBytes, 0, out);
}

// The 5-bit integers of a block less `bias`: nibbles at `q`, the bits above them in `high`.
void five_bits(std::uint32_t high, const std::byte* q, std::uint32_t bias, BlockCodes& out) {
  for (std::uint32_t j = 0; j < kSmall / 2; ++j) {
    out.set(j, ((u8(q, j) & 15U) | ((high >> j) & 1U) << 4) - bias);
    out.set(j + kSmall / 2, ((u8(q, j) >> 4) | ((high >> (j + kSmall / 2)) & 1U) << 4) - bias);
  }
}

void codes_q5_0(const std::byte* block, BlockCodes& out) {
  const auto high = load<std::uint32_t>(block + kHalfBytes);
  out.set_run(0, half_at(block), 0.0F);
  five_bits(high, block + kHalfBytes + sizeof(high), 16, out);
}

void codes_q5_1(const std::byte* block, BlockCodes& out) {
  const auto high = load<std::uint32_t>(block + 2 * kHalfBytes);
  out.set_run(0, half_at(block), -half_at(block + kHalfBytes));
  five_bits(high, block + 2 * kHalfBytes + sizeof(high), 0, out);
}

constexpr std::size_t kScaleBytes = 12;

// The scales d·s and minima dmin·n of the runs of Q4_K and Q5_K.
void run_scales(const std::byte* block, BlockCodes& out) {
  out.superscale = half_at(block);
  out.superminimum = half_at(block + kHalfBytes);
  const std::byte* c = block + 2 * kHalfBytes;
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
    out.set_run(r, as_float(s), as_float(n));
  }
}

void codes_q2_k(const std::byte* block, BlockCodes& out) {
  out.superscale = half_at(block + 80);
  out.superminimum = half_at(block + 82);
  for (std::size_t group = 0; group < kLargestBlock / kCodeGroup; ++group) {
    const std::uint32_t c = u8(block, group);
    out.scales[group] = as_float(c & 15U);
    out.minima[group] = as_float(c >> 4);
  }
  two_bits(block + 16, 0, out);
}

void codes_q3_k(const std::byte* block, BlockCodes& out) {
  const std::byte* low = block + 32;
  const std::byte* c = block + 96;
  out.superscale = half_at(block + 108);
  for (std::size_t group = 0; group < kLargestBlock / kCodeGroup; ++group) {
    const std::uint32_t nibble = (u8(c, group % 8) >> (group / 8 * 4)) & 15U;
    const std::uint32_t top = (u8(c, 8 + group % 4) >> (group / 4 * 2)) & 3U;
    out.scales[group] = as_float((nibble | top << 4) - 32U);
    out.minima[group] = 0.0F;
  }
  for (std::size_t run = 0; run < kRuns; ++run) {
    const std::byte* pairs = low + run / 4 * 32;
    for (std::size_t j = 0; j < 32; ++j) {
      const std::uint32_t top = (u8(block, j) >> run) & 1U;
      out.set(32 * run + j, (((u8(pairs, j) >> (run % 4 * 2)) & 3U) | top << 2) - 4U);
    }
  }
}

void codes_q4_k(const std::byte* block, BlockCodes& out) {
  run_scales(block, out);
  const std::byte* q = block + 2 * kHalfBytes + kScaleBytes;
  for (std::size_t r = 0; r < kRuns; ++r) {
    const std::byte* nibbles = q + r / 2 * 32;
    const std::uint32_t shift = r % 2 == 0 ? 0 : 4;
    for (std::size_t j = 0; j < 32; ++j) {
      out.set(32 * r + j, (u8(nibbles, j) >> shift) & 15U);
    }
  }
}

void codes_q5_k(const std::byte* block, BlockCodes& out) {
  run_scales(block, out);
  const std::byte* high = block + 2 * kHalfBytes + kScaleBytes;
  const std::byte* q = high + 32;
  for (std::size_t r = 0; r < kRuns; ++r) {
    const std::byte* nibbles = q + r / 2 * 32;
    const std::uint32_t shift = r % 2 == 0 ? 0 : 4;
    for (std::size_t j = 0; j < 32; ++j) {
      const std::uint32_t top = (u8(high, j) >> r) & 1U;
      out.set(32 * r + j, ((u8(nibbles, j) >> shift) & 15U) | top << 4);
    }
  }
}

void codes_q6_k(const std::byte* block, BlockCodes& out) {
  const std::byte* s = block + 192;
  out.superscale = half_at(block + 208);
  for (std::size_t group = 0; group < kLargestBlock / kCodeGroup; ++group) {
    out.scales[group] = static_cast<float>(static_cast<std::int8_t>(s[group]));
    out.minima[group] = 0.0F;
  }
  for (std::size_t run = 0; run < kRuns; ++run) {
    const std::size_t half = run / 4;
    const std::size_t a = run % 4;
    const std::byte* nibbles = block + 64 * half + 32 * (a & 1U);
    const std::byte* tops = block + 128 + 32 * half;
    const std::uint32_t shift = a < 2 ? 0 : 4;
    for (std::size_t j = 0; j < 32; ++j) {
      const std::uint32_t top = (u8(tops, j) >> (2 * a)) & 3U;
      out.set(32 * run + j, (((u8(nibbles, j) >> shift) & 15U) | top << 4) - 32U);
    }
  }
}

// nullptr for the types that have no codes.
CodeFunction code_function(TensorType type) {
  switch (type) {
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
      return nullptr;
    case TensorType::kQ8_0:
      return codes_q8_0;
    case TensorType::kQ4_0:
      return codes_q4_0;
    case TensorType::kQ4_1:
      return codes_q4_1;
    case TensorType::kQ5_0:
      return codes_q5_0;
    case TensorType::kQ5_1:
      return codes_q5_1;
    case TensorType::kQ2_K:
      return codes_q2_k;
    case TensorType::kQ3_K:
      return codes_q3_k;
    case TensorType::kQ4_K:
      return codes_q4_k;
    case TensorType::kQ5_K:
      return codes_q5_k;
    case TensorType::kQ6_K:
      return codes_q6_k;
    case TensorType::kIQ1_S:
      return codes_iq1_s;
    case TensorType::kIQ1_M:
      return codes_iq1_m;
    case TensorType::kIQ2_XXS:
      return codes_iq2_xxs;
    case TensorType::kIQ2_XS:
      return codes_iq2_xs;
    case TensorType::kIQ2_S:
      return codes_iq2_s;
    case TensorType::kIQ3_XXS:
      return codes_iq3_xxs;
    case TensorType::kIQ3_S:
      return codes_iq3_s;
    case TensorType::kIQ4_NL:
      return codes_iq4_nl;
    case TensorType::kIQ4_XS:
      return codes_iq4_xs;
    case TensorType::kTQ1_0:
      return codes_tq1_0;
    case TensorType::kTQ2_0:
      return codes_tq2_0;
    case TensorType::kMXFP4:
      return codes_mxfp4;
    case TensorType::kNVFP4:
      return codes_nvfp4;
    case TensorType::kQ1_0:
      return codes_q1_0;
    case TensorType::kQ2_0:
      return codes_q2_0;
  }
  return nullptr;
}

// The values of a block of `elements`.
void values_of(const BlockCodes& block, std::size_t elements, float* out) {
  for (std::size_t group = 0; group < elements / kCodeGroup; ++group) {
    const float scale = block.superscale * block.scales[group];
    const float minimum = block.superminimum * block.minima[group];
    for (std::size_t i = group * kCodeGroup; i < (group + 1) * kCodeGroup; ++i) {
      out[i] = scale * static_cast<float>(block.codes[i]) - minimum;
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

void check_sizes(const TypeTraits& traits, std::size_t bytes, std::size_t elements) {
  PHALANX_CHECK(elements % traits.block_elements == 0 &&
                    bytes == elements / traits.block_elements * traits.block_bytes,
                "blocks and elements that do not belong together");
}

}  // namespace

void decode(TensorType type, std::span<const std::byte> blocks, std::span<float> out) {
  const TypeTraits& traits = traits_of(type);
  check_sizes(traits, blocks.size(), out.size());
  switch (type) {
    case TensorType::kF32:
      return each_block<block_f32>(traits, blocks.data(), out);
    case TensorType::kF16:
      return each_block<block_f16>(traits, blocks.data(), out);
    case TensorType::kBF16:
      return each_block<block_bf16>(traits, blocks.data(), out);
    case TensorType::kMXFP4:
      return each_block<values_mxfp4>(traits, blocks.data(), out);
    default:
      break;
  }
  const CodeFunction codes = code_function(type);
  PHALANX_CHECK(codes != nullptr, "a tensor type that cannot be decoded");
  BlockCodes block;
  for (std::size_t at = 0; at < out.size(); at += traits.block_elements) {
    codes(blocks.data() + at / traits.block_elements * traits.block_bytes, block);
    values_of(block, traits.block_elements, out.data() + at);
  }
}

void decode_codes(TensorType type, std::span<const std::byte> blocks, const CodeSpans& out) {
  const TypeTraits& traits = traits_of(type);
  const CodeFunction codes = code_function(type);
  PHALANX_CHECK(codes != nullptr, "a tensor type without codes");
  check_sizes(traits, blocks.size(), out.codes.size());
  PHALANX_CHECK(
      out.scales.size() == out.codes.size() / kCodeGroup && out.minima.size() == out.scales.size(),
      "expected a scale and a minimum for 16 codes");
  const bool two_levels = !out.superscales.empty();
  PHALANX_CHECK(!two_levels || (traits.block_elements % kSuperblock == 0 &&
                                out.superscales.size() == out.codes.size() / kSuperblock &&
                                out.superminima.size() == out.superscales.size()),
                "expected a superscale and a superminimum for 64 codes of whole blocks");
  BlockCodes block;
  for (std::size_t at = 0; at < out.codes.size(); at += traits.block_elements) {
    codes(blocks.data() + at / traits.block_elements * traits.block_bytes, block);
    const std::size_t groups = traits.block_elements / kCodeGroup;
    std::copy_n(block.codes.begin(), traits.block_elements, out.codes.data() + at);
    const float superscale = two_levels ? 1.0F : block.superscale;
    const float superminimum = two_levels ? 1.0F : block.superminimum;
    for (std::size_t group = 0; group < groups; ++group) {
      out.scales[at / kCodeGroup + group] = superscale * block.scales[group];
      out.minima[at / kCodeGroup + group] = superminimum * block.minima[group];
    }
    if (two_levels) {
      const std::size_t superblocks = traits.block_elements / kSuperblock;
      std::fill_n(out.superscales.data() + at / kSuperblock, superblocks, block.superscale);
      std::fill_n(out.superminima.data() + at / kSuperblock, superblocks, block.superminimum);
    }
  }
}

}  // namespace phalanx::gguf
