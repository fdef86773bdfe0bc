// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "phalanx/kernels/weight.h"

// Where the codes and scales of a packed strip of integers lie, one by one.

namespace phalanx::kernels {

// One strip. Requires an integer format. `Byte` is std::byte, or const std::byte to read only.
template <typename Byte>
struct PackedStrip {
  const WeightTraits& traits;
  Byte* scales;
  Byte* codes;

  PackedStrip(WeightFormat format, std::size_t rows, Byte* strip)
      : traits(traits_of(format)), scales(strip), codes(strip + strip_scale_bytes(format, rows)) {}

  // The scale of element k.
  [[nodiscard]] Byte* scale_at(std::size_t k, std::size_t column) const {
    return scales + (row_of_scales(k) * kStripColumns + column) * traits.scale_bytes;
  }
  // Requires a format with minima.
  [[nodiscard]] Byte* minimum_at(std::size_t k, std::size_t column) const {
    return scale_at(k, column) + kStripColumns * traits.scale_bytes;
  }

  [[nodiscard]] float scale(std::size_t k, std::size_t column) const {
    if (traits.scale_bytes == sizeof(tensor::F16)) {
      return tensor::to_float(read<tensor::F16>(scale_at(k, column)));
    }
    return read<float>(scale_at(k, column));
  }
  [[nodiscard]] float minimum(std::size_t k, std::size_t column) const {
    return traits.has_minima ? read<float>(minimum_at(k, column)) : 0.0F;
  }

  [[nodiscard]] std::int32_t code(std::size_t k, std::size_t column) const {
    if (traits.code_bits == 8) {
      const auto byte = std::to_integer<std::int32_t>(codes[byte_index(k / 4, k % 4, column)]);
      return byte - traits.code_bias;
    }
    const auto byte = std::to_integer<std::int32_t>(codes[byte_index(k / 8, k % 4, column)]);
    return (k % 8 < 4 ? byte & 15 : byte >> 4) - traits.code_bias;
  }

  // Requires a nibble that is zero, where codes have four bits.
  void set_code(std::size_t k, std::size_t column, std::int32_t value) const {
    const auto biased = static_cast<std::uint32_t>(value + traits.code_bias);
    if (traits.code_bits == 8) {
      codes[byte_index(k / 4, k % 4, column)] = static_cast<std::byte>(biased);
      return;
    }
    codes[byte_index(k / 8, k % 4, column)] |=
        static_cast<std::byte>(k % 8 < 4 ? biased : biased << 4);
  }

 private:
  [[nodiscard]] std::size_t row_of_scales(std::size_t k) const {
    return traits.group == 0 ? 0 : k / traits.group * (traits.has_minima ? 2 : 1);
  }
  template <typename T>
  [[nodiscard]] static T read(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  static std::size_t byte_index(std::size_t quad, std::size_t byte, std::size_t column) {
    return (quad * kStripColumns + column) * 4 + byte;
  }
};

}  // namespace phalanx::kernels
