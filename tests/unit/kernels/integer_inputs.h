// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "kernel_inputs.h"

namespace phalanx::kernels {

// One for each kind of product: those with other tables are multiplied as these two are.
inline constexpr std::array kIntegerFormats = {WeightFormat::kInt8,
                                               WeightFormat::kInt8G32,
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
                                               WeightFormat::kE2m1G16};
// Those of them that are made of floats.
inline constexpr std::array kMadeFormats = {
    WeightFormat::kInt8, WeightFormat::kInt8G32, WeightFormat::kInt4};
inline constexpr std::array kScaleSpans = {ScaleSpan::kLeaf, ScaleSpan::kBlock};

// Bytes at an address that is a multiple of 64.
struct alignas(64) CacheLine {
  std::byte bytes[64];
};
class PackedBytes {
 public:
  explicit PackedBytes(std::size_t count) : lines_((count + 63) / 64), count_(count) {}
  [[nodiscard]] std::span<std::byte> bytes() { return {lines_.front().bytes, count_}; }
  [[nodiscard]] const std::byte* data() const { return lines_.front().bytes; }

 private:
  std::vector<CacheLine> lines_;
  std::size_t count_;
};

// By the order that docs/arithmetic.md gives; nullptr where codes lie as they are.
inline const std::array<std::int32_t, 16>* table_of(WeightFormat format) {
  static constexpr std::array<std::int32_t, 16> kIq4 = {
      -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  static constexpr std::array<std::int32_t, 16> kE2m1 = {
      0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  static constexpr std::array<std::int32_t, 16> kIq3Xxs = {
      -62, -52, -44, -36, -28, -20, -12, -4, 4, 12, 20, 28, 36, 44, 52, 62};
  static constexpr std::array<std::int32_t, 16> kIq3S = {
      -15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15};
  static constexpr std::array<std::int32_t, 16> kIq2 = {
      -43, -25, -9, -8, -7, -1, 0, 0, 0, 0, 1, 7, 8, 9, 25, 43};
  switch (format) {
    case WeightFormat::kIq4G32:
      return &kIq4;
    case WeightFormat::kE2m1G32:
    case WeightFormat::kE2m1G16:
      return &kE2m1;
    case WeightFormat::kIq3XxsG32:
      return &kIq3Xxs;
    case WeightFormat::kIq3SG32:
      return &kIq3S;
    case WeightFormat::kIq2G32:
    case WeightFormat::kIq2G16:
      return &kIq2;
    default:
      return nullptr;
  }
}
inline bool has_nibbles(WeightFormat format) {
  return format == WeightFormat::kInt4 || format == WeightFormat::kInt4G32Min ||
         format == WeightFormat::kInt4G32MinK || format == WeightFormat::kInt4G16MinK ||
         format == WeightFormat::kInt4G16K || table_of(format) != nullptr;
}
inline bool has_five_bits(WeightFormat format) {
  return format == WeightFormat::kInt5G32 || format == WeightFormat::kInt5G32Min ||
         format == WeightFormat::kInt5G32MinK;
}

// The code of (k, column) as it is stored, by the layout in weight.h.
inline std::uint32_t stored_code(WeightFormat format,
                                 const std::byte* packed,
                                 std::size_t rows,
                                 std::size_t k,
                                 std::size_t column) {
  const std::byte* codes =
      packed + column / 16 * weight_bytes(format, rows, 16) + strip_scale_bytes(format, rows);
  if (has_five_bits(format)) {
    const std::byte* lines = codes + k / 32 * 320 + column % 16 * 4 + k % 4;
    const auto lower = std::to_integer<std::uint32_t>(lines[k % 32 / 8 * 64]);
    const auto upper = std::to_integer<std::uint32_t>(lines[256]);
    const std::uint32_t quad = k % 32 / 4;
    return (lower >> quad % 2 * 4 & 15U) + 16 * (upper >> quad & 1U);
  }
  if (format == WeightFormat::kInt6G16K) {
    const std::byte* lines = codes + k / 16 * 192 + column % 16 * 4 + k % 4;
    const auto lower = std::to_integer<std::uint32_t>(lines[k % 16 / 8 * 64]);
    const auto upper = std::to_integer<std::uint32_t>(lines[128]);
    const std::uint32_t quad = k % 16 / 4;
    return (lower >> quad % 2 * 4 & 15U) + 16 * (upper >> quad * 2 & 3U);
  }
  if (!has_nibbles(format)) {
    return std::to_integer<std::uint32_t>(codes[(k / 4 * 16 + column % 16) * 4 + k % 4]);
  }
  const auto byte = std::to_integer<std::uint32_t>(codes[(k / 8 * 16 + column % 16) * 4 + k % 4]);
  return k % 8 < 4 ? byte & 15U : byte >> 4U;
}

inline std::uint32_t bias_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kInt4:
    case WeightFormat::kInt4G16K:
      return 8;
    case WeightFormat::kInt6G16K:
      return 32;
    case WeightFormat::kInt5G32:
      return 16;
    default:
      return has_nibbles(format) || has_five_bits(format) ? 0 : 128;
  }
}

// The code that is stored as such a number.
inline std::int32_t code_of(WeightFormat format, std::uint32_t stored) {
  if (const auto* table = table_of(format)) {
    return (*table)[stored];
  }
  return static_cast<std::int32_t>(stored) - static_cast<std::int32_t>(bias_of(format));
}
inline std::int32_t code_of(WeightFormat format,
                            const std::byte* packed,
                            std::size_t rows,
                            std::size_t k,
                            std::size_t column) {
  return code_of(format, stored_code(format, packed, rows, k, column));
}

// Line `line` of scales and minima of a strip that has them in two levels: `bytes` of a superblock,
// of which the first 32 · `lines` are what its groups share, and `group` elements.
inline float in_two_levels(const std::byte* strip,
                           std::size_t bytes,
                           std::size_t lines,
                           std::size_t group,
                           std::size_t k,
                           std::size_t line,
                           std::size_t column) {
  const std::byte* superblock = strip + k / 64 * bytes;
  tensor::F16 shared;
  std::int8_t step = 0;
  std::memcpy(&shared, superblock + line * 32 + column * 2, 2);
  std::memcpy(&step, superblock + lines * 32 + (k % 64 / group * lines + line) * 16 + column, 1);
  return tensor::to_float(shared) * static_cast<float>(step);
}
// The same by format; none of one level.
inline float in_two_levels(WeightFormat format,
                           const std::byte* strip,
                           std::size_t k,
                           std::size_t line,
                           std::size_t column) {
  switch (format) {
    case WeightFormat::kInt6G16K:
    case WeightFormat::kInt4G16K:
      return in_two_levels(strip, 96, 1, 16, k, line, column);
    case WeightFormat::kInt4G16MinK:
      return in_two_levels(strip, 192, 2, 16, k, line, column);
    default:
      return in_two_levels(strip, 128, 2, 32, k, line, column);
  }
}

inline float scale_of(WeightFormat format,
                      const std::byte* packed,
                      std::size_t rows,
                      std::size_t k,
                      std::size_t column) {
  const std::byte* strip = packed + column / 16 * weight_bytes(format, rows, 16);
  const std::size_t c = column % 16;
  float wide = 0.0F;
  tensor::F16 half;
  switch (format) {
    case WeightFormat::kBf16:
      return 1.0F;
    case WeightFormat::kInt8:
      std::memcpy(&wide, strip + c * 4, 4);
      return wide;
    case WeightFormat::kInt8G32:
    case WeightFormat::kInt5G32:
    case WeightFormat::kInt4:
      std::memcpy(&half, strip + (k / 32 * 16 + c) * 2, 2);
      return tensor::to_float(half);
    case WeightFormat::kInt8G16:
    case WeightFormat::kE2m1G16:
    case WeightFormat::kIq2G16:
      std::memcpy(&wide, strip + (k / 16 * 16 + c) * 4, 4);
      return wide;
    case WeightFormat::kIq4G32:
    case WeightFormat::kE2m1G32:
    case WeightFormat::kIq3XxsG32:
    case WeightFormat::kIq3SG32:
    case WeightFormat::kIq2G32:
      std::memcpy(&wide, strip + (k / 32 * 16 + c) * 4, 4);
      return wide;
    case WeightFormat::kInt5G32Min:
    case WeightFormat::kInt4G32Min:
      std::memcpy(&wide, strip + (k / 32 * 32 + c) * 4, 4);
      return wide;
    case WeightFormat::kInt8G16Min:
      std::memcpy(&wide, strip + (k / 16 * 32 + c) * 4, 4);
      return wide;
    case WeightFormat::kInt6G16K:
    case WeightFormat::kInt5G32MinK:
    case WeightFormat::kInt4G32MinK:
    case WeightFormat::kInt4G16MinK:
    case WeightFormat::kInt4G16K:
      return in_two_levels(format, strip, k, 0, c);
  }
  return 0.0F;
}

inline float minimum_of(WeightFormat format,
                        const std::byte* packed,
                        std::size_t rows,
                        std::size_t k,
                        std::size_t column) {
  if (!traits_of(format).has_minima) {
    return 0.0F;
  }
  const std::size_t group = format == WeightFormat::kInt8G16Min ? 16 : 32;
  const std::byte* strip = packed + column / 16 * weight_bytes(format, rows, 16);
  if (traits_of(format).has_two_levels()) {
    return in_two_levels(format, strip, k, 1, column % 16);
  }
  float minimum = 0.0F;
  std::memcpy(&minimum, strip + (k / group * 32 + 16 + column % 16) * 4, 4);
  return minimum;
}

// f16 numbers, denormals among them.
inline void make_f16s(std::vector<float>& numbers, Inputs& inputs) {
  for (float& number : numbers) {
    number = tensor::to_float(
        tensor::F16{static_cast<std::uint16_t>(inputs.below(0x7C00) | inputs.below(2) << 15)});
  }
}
// Steps of two levels.
inline void make_steps(std::vector<float>& numbers, Inputs& inputs) {
  for (float& number : numbers) {
    number = static_cast<float>(inputs.below(256)) - 128.0F;
  }
}

// Columns that are coded already, with one scale and minimum for 16 elements, or steps and what 64
// share.
struct TestCodes {
  std::vector<std::int8_t> codes;
  std::vector<float> scales;
  std::vector<float> minima;
  std::vector<float> superscales;
  std::vector<float> superminima;
  CodedColumns view;

  // Of element k of a column.
  [[nodiscard]] float scale(std::size_t column, std::size_t k) const {
    return of(scales, superscales, column, k);
  }
  [[nodiscard]] float minimum(std::size_t column, std::size_t k) const {
    return of(minima, superminima, column, k);
  }
  [[nodiscard]] float of(const std::vector<float>& numbers,
                         const std::vector<float>& shared,
                         std::size_t column,
                         std::size_t k) const {
    const float number = numbers[(column * view.k + k) / 16];
    return shared.empty() ? number : number * shared[column * ((view.k + 63) / 64) + k / 64];
  }

  // Of codes that the format holds. Where its groups are longer than 16, only the first scale of
  // each counts.
  TestCodes(WeightFormat format, std::size_t columns, std::size_t k, std::uint64_t seed, Kind kind)
      : codes(columns * k),
        scales(floats(columns * k / 16, seed, kind)),
        minima(floats(columns * k / 16, seed + 1, kind)) {
    Inputs inputs(seed + 2);
    if (traits_of(format).scale_bytes == 2) {
      make_f16s(scales, inputs);
    }
    if (traits_of(format).has_two_levels()) {
      superscales.resize(columns * ((k + 63) / 64));
      superminima.resize(superscales.size());
      make_steps(scales, inputs);
      make_steps(minima, inputs);
      make_f16s(superscales, inputs);
      make_f16s(superminima, inputs);
    }
    const std::uint32_t bits = traits_of(format).code_bits;
    for (std::int8_t& code : codes) {
      code = static_cast<std::int8_t>(code_of(format, inputs.below(1U << bits)));
    }
    const bool two_levels = !superscales.empty();
    view = {codes.data(),
            scales.data(),
            minima.data(),
            columns,
            k,
            two_levels ? superscales.data() : nullptr,
            two_levels ? superminima.data() : nullptr};
  }
  TestCodes(const TestCodes&) = delete;
  TestCodes& operator=(const TestCodes&) = delete;
};

// A weight of any format: of floats where it is made of such, else of codes.
inline void pack_test_weight(WeightFormat format,
                             std::size_t columns,
                             std::size_t k,
                             std::uint64_t seed,
                             Kind kind,
                             std::span<std::byte> to) {
  if (traits_of(format).from_floats) {
    const std::vector<Bf16> weight = bf16s(columns * k, seed, kind);
    pack_weight({weight.data(), columns, k, k}, format, to);
    return;
  }
  const TestCodes coded(format, columns, padded_k(k), seed, kind);
  EXPECT_TRUE(pack_coded_strips(coded.view, format, to).has_value());
}

// Quantised rows with their memory.
struct Quantized {
  std::size_t stride = 0;
  std::vector<CacheLine> codes;
  std::vector<std::int32_t> sums;
  std::vector<float> scales;
  QuantizedRows view;

  Quantized(std::size_t rows, std::size_t code_stride, ScaleSpan span)
      : stride(code_stride),
        codes(rows * code_stride / 64),
        sums(rows * code_stride / 32),
        scales(rows * code_stride / 32) {
    view = {reinterpret_cast<std::int8_t*>(codes.data()),
            code_stride,
            sums.data(),
            scales.data(),
            span};
  }
  Quantized(const Quantized&) = delete;
  Quantized& operator=(const Quantized&) = delete;

  [[nodiscard]] const std::int8_t* row(std::size_t index) const {
    return view.codes + index * stride;
  }
};

inline void run_quantize(const KernelTable& table, const QuantizeArgs& args) {
  for (std::uint32_t tile = 0; tile < row_tiles(args.rows); ++tile) {
    table.quantize(args, tile);
  }
}

}  // namespace phalanx::kernels
