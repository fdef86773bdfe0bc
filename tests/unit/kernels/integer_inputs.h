// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "kernel_inputs.h"

namespace phalanx::kernels {

inline constexpr std::array kIntegerFormats = {
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
  if (format != WeightFormat::kInt4) {
    return std::to_integer<std::uint32_t>(codes[(k / 4 * 16 + column % 16) * 4 + k % 4]);
  }
  const auto byte = std::to_integer<std::uint32_t>(codes[(k / 8 * 16 + column % 16) * 4 + k % 4]);
  return k % 8 < 4 ? byte & 15U : byte >> 4U;
}

inline std::int32_t code_of(WeightFormat format,
                            const std::byte* packed,
                            std::size_t rows,
                            std::size_t k,
                            std::size_t column) {
  return static_cast<std::int32_t>(stored_code(format, packed, rows, k, column)) -
         (format == WeightFormat::kInt4 ? 8 : 128);
}

inline std::byte* scale_address(
    WeightFormat format, std::byte* packed, std::size_t rows, std::size_t k, std::size_t column) {
  std::byte* strip = packed + column / 16 * weight_bytes(format, rows, 16);
  return format == WeightFormat::kInt8 ? strip + column % 16 * 4
                                       : strip + (k / 32 * 16 + column % 16) * 2;
}

inline float scale_of(WeightFormat format,
                      const std::byte* packed,
                      std::size_t rows,
                      std::size_t k,
                      std::size_t column) {
  const std::byte* at = scale_address(format, const_cast<std::byte*>(packed), rows, k, column);
  if (format == WeightFormat::kInt8) {
    float scale = 0.0F;
    std::memcpy(&scale, at, sizeof(scale));
    return scale;
  }
  tensor::F16 scale;
  std::memcpy(&scale, at, sizeof(scale));
  return tensor::to_float(scale);
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
