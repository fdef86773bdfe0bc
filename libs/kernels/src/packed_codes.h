// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "phalanx/kernels/weight.h"

// Where the codes and scales of a packed strip of integers lie, one by one.

namespace phalanx::kernels {

// Unsigned in memory: code + bias.
[[nodiscard]] constexpr std::int32_t code_bias(WeightFormat format) {
  return format == WeightFormat::kInt4 ? 8 : 128;
}

// One strip. Requires an integer format. `Byte` is std::byte, or const std::byte to read only.
template <typename Byte>
struct PackedStrip {
  WeightFormat format;
  Byte* scales;
  Byte* codes;

  PackedStrip(WeightFormat of, std::size_t rows, Byte* strip)
      : format(of), scales(strip), codes(strip + strip_scale_bytes(of, rows)) {}

  [[nodiscard]] Byte* scale_at(std::size_t k, std::size_t column) const {
    return format == WeightFormat::kInt8
               ? scales + column * sizeof(float)
               : scales + (k / kDotBlock * kStripColumns + column) * sizeof(tensor::F16);
  }

  [[nodiscard]] float scale(std::size_t k, std::size_t column) const {
    if (format == WeightFormat::kInt8) {
      float value = 0.0F;
      std::memcpy(&value, scale_at(k, column), sizeof(value));
      return value;
    }
    tensor::F16 value;
    std::memcpy(&value, scale_at(k, column), sizeof(value));
    return tensor::to_float(value);
  }

  [[nodiscard]] std::int32_t code(std::size_t k, std::size_t column) const {
    if (format != WeightFormat::kInt4) {
      return std::to_integer<std::int32_t>(codes[byte_index(k / 4, k % 4, column)]) - 128;
    }
    const auto byte = std::to_integer<std::int32_t>(codes[byte_index(k / 8, k % 4, column)]);
    return (k % 8 < 4 ? byte & 15 : byte >> 4) - 8;
  }

  // Requires a nibble that is zero, for kInt4.
  void set_code(std::size_t k, std::size_t column, std::int32_t value) const {
    const auto biased = static_cast<std::uint32_t>(value + code_bias(format));
    if (format != WeightFormat::kInt4) {
      codes[byte_index(k / 4, k % 4, column)] = static_cast<std::byte>(biased);
      return;
    }
    codes[byte_index(k / 8, k % 4, column)] |=
        static_cast<std::byte>(k % 8 < 4 ? biased : biased << 4);
  }

 private:
  static std::size_t byte_index(std::size_t quad, std::size_t byte, std::size_t column) {
    return (quad * kStripColumns + column) * 4 + byte;
  }
};

}  // namespace phalanx::kernels
