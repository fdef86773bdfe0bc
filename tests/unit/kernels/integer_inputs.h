// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "kernel_inputs.h"

namespace phalanx::kernels {

inline constexpr std::array kIntegerFormats = {WeightFormat::kInt8,
                                               WeightFormat::kInt8G32,
                                               WeightFormat::kInt4,
                                               WeightFormat::kInt8G16,
                                               WeightFormat::kInt8G32Min,
                                               WeightFormat::kInt4G32Min,
                                               WeightFormat::kInt8G16Min};
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

// The code of (k, column) as it is stored, by the layout in weight.h.
inline std::uint32_t stored_code(WeightFormat format,
                                 const std::byte* packed,
                                 std::size_t rows,
                                 std::size_t k,
                                 std::size_t column) {
  const std::byte* codes =
      packed + column / 16 * weight_bytes(format, rows, 16) + strip_scale_bytes(format, rows);
  if (format != WeightFormat::kInt4 && format != WeightFormat::kInt4G32Min) {
    return std::to_integer<std::uint32_t>(codes[(k / 4 * 16 + column % 16) * 4 + k % 4]);
  }
  const auto byte = std::to_integer<std::uint32_t>(codes[(k / 8 * 16 + column % 16) * 4 + k % 4]);
  return k % 8 < 4 ? byte & 15U : byte >> 4U;
}

inline std::uint32_t bias_of(WeightFormat format) {
  return format == WeightFormat::kInt4 ? 8 : format == WeightFormat::kInt4G32Min ? 0 : 128;
}

inline std::int32_t code_of(WeightFormat format,
                            const std::byte* packed,
                            std::size_t rows,
                            std::size_t k,
                            std::size_t column) {
  return static_cast<std::int32_t>(stored_code(format, packed, rows, k, column)) -
         static_cast<std::int32_t>(bias_of(format));
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
    case WeightFormat::kInt4:
      std::memcpy(&half, strip + (k / 32 * 16 + c) * 2, 2);
      return tensor::to_float(half);
    case WeightFormat::kInt8G16:
      std::memcpy(&wide, strip + (k / 16 * 16 + c) * 4, 4);
      return wide;
    case WeightFormat::kInt8G32Min:
    case WeightFormat::kInt4G32Min:
      std::memcpy(&wide, strip + (k / 32 * 32 + c) * 4, 4);
      return wide;
    case WeightFormat::kInt8G16Min:
      std::memcpy(&wide, strip + (k / 16 * 32 + c) * 4, 4);
      return wide;
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
  float minimum = 0.0F;
  std::memcpy(&minimum, strip + (k / group * 32 + 16 + column % 16) * 4, 4);
  return minimum;
}

// Columns that are coded already, with one scale and minimum for 16 elements.
struct TestCodes {
  std::vector<std::int8_t> codes;
  std::vector<float> scales;
  std::vector<float> minima;
  CodedColumns view;

  // Of codes that the format holds. Where its groups are longer than 16, only the first scale of
  // each counts.
  TestCodes(WeightFormat format, std::size_t columns, std::size_t k, std::uint64_t seed, Kind kind)
      : codes(columns * k),
        scales(floats(columns * k / 16, seed, kind)),
        minima(floats(columns * k / 16, seed + 1, kind)) {
    Inputs inputs(seed + 2);
    const bool is_half = traits_of(format).scale_bytes == 2;
    for (std::size_t i = 0; is_half && i < scales.size(); ++i) {
      // An f16, denormals among them.
      scales[i] = tensor::to_float(
          tensor::F16{static_cast<std::uint16_t>(inputs.below(0x7C00) | inputs.below(2) << 15)});
    }
    const std::uint32_t bits = traits_of(format).code_bits;
    for (std::int8_t& code : codes) {
      code = static_cast<std::int8_t>(static_cast<std::int32_t>(inputs.below(1U << bits)) -
                                      static_cast<std::int32_t>(bias_of(format)));
    }
    view = {codes.data(), scales.data(), minima.data(), columns, k};
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
  std::vector<std::int32_t> block_sums;
  std::vector<float> scales;
  QuantizedRows view;

  Quantized(std::size_t rows, std::size_t code_stride, ScaleSpan span)
      : stride(code_stride),
        codes(rows * code_stride / 64),
        block_sums(rows * code_stride / 32),
        scales(rows * code_stride / 32) {
    view = {reinterpret_cast<std::int8_t*>(codes.data()),
            code_stride,
            block_sums.data(),
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
