// SPDX-License-Identifier: Apache-2.0
// The types of tensor_type.h whose q is no number but the place of one in a table.
#include <algorithm>
#include <bit>
#include <limits>

#include "block_codes.h"

namespace phalanx::gguf {
namespace {

using CodeTable = std::array<std::int8_t, 16>;

constexpr CodeTable kNonLinear = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Numbers of 1, 2 and 1 bits (sign, exponent, mantissa), doubled.
constexpr CodeTable kDoubledE2m1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

constexpr std::uint32_t kNanExponent = 255;
constexpr std::uint32_t kNormalExponent = 2;  // 2^(e − 128) is no fp32 denormal from it on
constexpr std::uint32_t kInfinite = 256;      // 2^(e − 128) is infinite in fp32 from it on

// code · 2^(e − 128), infinite where fp32 ends. Integer operations only: the product may be a
// denormal.
float scaled_code(std::int32_t code, std::uint32_t e) {
  if (e == kNanExponent) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  if (code == 0) {
    return 0.0F;
  }
  const std::uint32_t sign = code < 0 ? 0x80000000U : 0U;
  const auto magnitude = static_cast<std::uint32_t>(code < 0 ? -code : code);
  const auto top = static_cast<std::uint32_t>(std::bit_width(magnitude)) - 1U;
  if (e + top < 2) {
    return std::bit_cast<float>(sign | magnitude << (21 + e));
  }
  const std::uint32_t exponent = std::min(e + top - 1, 255U);
  const std::uint32_t mantissa = exponent == 255 ? 0 : (magnitude << (23 - top)) & 0x7FFFFFU;
  return std::bit_cast<float>(sign | exponent << 23 | mantissa);
}

// The numbers at the places that the nibbles of `elements` name.
template <std::size_t elements = kSmall, typename T>
void table_nibbles(const std::byte* q, const std::array<T, 16>& table, T* to) {
  for (std::size_t j = 0; j < elements / 2; ++j) {
    to[j] = table[u8(q, j) & 15U];
    to[j + elements / 2] = table[u8(q, j) >> 4];
  }
}

constexpr std::size_t kNvfp4Groups = 4;
constexpr std::uint32_t kNanUe4m3 = 127;  // what is above has more than its 7 bits

// Half of a number of 4 and 3 bits (exponent, mantissa) without a sign: for codes that are doubled.
float half_of_ue4m3(std::uint32_t e) {
  if (e >= kNanUe4m3) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  const std::uint32_t significand = e < 8 ? e : 8 + e % 8;
  const std::uint32_t exponent = std::max(e / 8, 1U);
  return as_float(significand) * std::bit_cast<float>((exponent + 116) << 23);  // 2^(exponent − 11)
}

}  // namespace

void codes_iq4_nl(const std::byte* block, BlockCodes& out) {
  out.set_run(0, half_at(block), 0.0F);
  table_nibbles(block + kHalfBytes, kNonLinear, out.codes.data());
}

void codes_iq4_xs(const std::byte* block, BlockCodes& out) {
  const float d = half_at(block);
  const std::uint32_t tops = load<std::uint16_t>(block + kHalfBytes);
  const std::byte* low = block + 2 * kHalfBytes;
  const std::byte* q = low + kRuns / 2;
  for (std::size_t run = 0; run < kRuns; ++run) {
    const std::uint32_t nibble = (u8(low, run / 2) >> (run % 2 * 4)) & 15U;
    const std::uint32_t top = (tops >> (2 * run)) & 3U;
    out.set_run(run, d * as_float((nibble | top << 4) - 32U), 0.0F);
    table_nibbles(q + run * kSmall / 2, kNonLinear, out.codes.data() + run * kSmall);
  }
}

void codes_mxfp4(const std::byte* block, BlockCodes& out) {
  const std::uint32_t e = u8(block, 0);
  table_nibbles(block + 1, kDoubledE2m1, out.codes.data());
  std::int32_t most = 0;
  for (const std::int8_t code : std::span(out.codes).first<kSmall>()) {
    most = std::max(most, code < 0 ? -code : code);
  }
  const auto bits = static_cast<std::uint32_t>(std::bit_width(static_cast<std::uint32_t>(most)));
  float scale = std::numeric_limits<float>::quiet_NaN();
  if (e >= kNormalExponent && e != kNanExponent && e + bits <= kInfinite) {
    scale = std::bit_cast<float>((e - 1) << 23);
  } else if (e < kNormalExponent && most == 0) {
    scale = 0.0F;
  }
  out.set_run(0, scale, 0.0F);
}

void codes_nvfp4(const std::byte* block, BlockCodes& out) {
  const std::byte* q = block + kNvfp4Groups;
  for (std::size_t group = 0; group < kNvfp4Groups; ++group) {
    out.scales[group] = half_of_ue4m3(u8(block, group));
    out.minima[group] = 0.0F;
    table_nibbles<kCodeGroup>(
        q + group * kCodeGroup / 2, kDoubledE2m1, out.codes.data() + group * kCodeGroup);
  }
}

void values_mxfp4(const std::byte* block, float* out) {
  std::array<float, kDoubledE2m1.size()> values;
  std::ranges::transform(kDoubledE2m1, values.begin(), [e = u8(block, 0)](std::int8_t code) {
    return scaled_code(code, e);
  });
  table_nibbles(block + 1, values, out);
}

}  // namespace phalanx::gguf
