// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "phalanx/base/check.h"
#include "phalanx/kernels/weight.h"

// Where the codes and scales of a packed strip of integers lie, one by one.

namespace phalanx::kernels {

// Scales and minima of one superblock of a strip. Requires a format with two levels.
[[nodiscard]] inline std::size_t superblock_bytes(const WeightTraits& traits) {
  const std::size_t lines = traits.has_minima ? 2 : 1;
  // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): such a format has groups
  return lines * kStripColumns * (sizeof(tensor::F16) + kSuperblock / traits.group);
}

// One strip. Requires an integer format. `Byte` is std::byte, or const std::byte to read only.
template <typename Byte>
struct PackedStrip {
  const WeightTraits& traits;
  Byte* scales;
  Byte* codes;

  PackedStrip(WeightFormat format, std::size_t rows, Byte* strip)
      : traits(traits_of(format)), scales(strip), codes(strip + strip_scale_bytes(format, rows)) {}

  // The scale of element k, or its step.
  [[nodiscard]] Byte* scale_at(std::size_t k, std::size_t column) const {
    if (traits.has_two_levels()) {
      const std::size_t lines = traits.has_minima ? 2 : 1;
      const std::size_t line = k % kSuperblock / traits.group * lines;
      return superscale_at(k, 0) + lines * kStripColumns * sizeof(tensor::F16) +
             line * kStripColumns + column;
    }
    return scales + (row_of_scales(k) * kStripColumns + column) * traits.scale_bytes;
  }
  // Requires a format with minima.
  [[nodiscard]] Byte* minimum_at(std::size_t k, std::size_t column) const {
    return scale_at(k, column) + kStripColumns * traits.scale_bytes;
  }

  // Require a format with two levels; the second one minima, too.
  [[nodiscard]] Byte* superscale_at(std::size_t k, std::size_t column) const {
    return scales + k / kSuperblock * superblock_bytes(traits) + column * sizeof(tensor::F16);
  }
  [[nodiscard]] Byte* superminimum_at(std::size_t k, std::size_t column) const {
    return superscale_at(k, kStripColumns + column);
  }

  [[nodiscard]] float scale(std::size_t k, std::size_t column) const {
    if (traits.has_two_levels()) {
      return product(superscale_at(k, column), scale_at(k, column));
    }
    if (traits.scale_bytes == sizeof(tensor::F16)) {
      return tensor::to_float(read<tensor::F16>(scale_at(k, column)));
    }
    return read<float>(scale_at(k, column));
  }
  [[nodiscard]] float minimum(std::size_t k, std::size_t column) const {
    if (!traits.has_minima) {
      return 0.0F;
    }
    if (traits.has_two_levels()) {
      return product(superminimum_at(k, column), minimum_at(k, column));
    }
    return read<float>(minimum_at(k, column));
  }

  [[nodiscard]] std::int32_t code(std::size_t k, std::size_t column) const {
    if (traits.code_bits == 8) {
      const auto byte = std::to_integer<std::int32_t>(codes[byte_index(k / 4, k % 4, column)]);
      return byte - traits.code_bias;
    }
    const std::int32_t lower =
        bits_at(nibble_line(k) + byte_index(0, k % 4, column), k / 4 % 2 * 4);
    if (traits.table != nullptr) {
      return (*traits.table)[static_cast<std::size_t>(lower & 15)];
    }
    if (traits.code_bits == 4) {
      return (lower & 15) - traits.code_bias;
    }
    const std::int32_t upper =
        bits_at(upper_line(k) + byte_index(0, k % 4, column), upper_shift(k));
    const std::int32_t mask = traits.code_bits == 5 ? 1 : 3;
    return ((lower & 15) | (upper & mask) << 4) - traits.code_bias;
  }

  // Requires a code of the format, and bits that are zero where a code has fewer than eight.
  void set_code(std::size_t k, std::size_t column, std::int32_t value) const {
    const auto biased = traits.table != nullptr
                            ? index_of(*traits.table, value)
                            : static_cast<std::uint32_t>(value + traits.code_bias);
    if (traits.code_bits == 8) {
      codes[byte_index(k / 4, k % 4, column)] = static_cast<std::byte>(biased);
      return;
    }
    codes[nibble_line(k) + byte_index(0, k % 4, column)] |=
        static_cast<std::byte>((biased & 15U) << (k / 4 % 2 * 4));
    if (traits.code_bits > 4) {
      codes[upper_line(k) + byte_index(0, k % 4, column)] |=
          static_cast<std::byte>((biased >> 4U) << upper_shift(k));
    }
  }

 private:
  // Of the first such code. Without a branch, so that the compiler looks at all of them at once.
  [[nodiscard]] static std::uint32_t index_of(const CodeTable& table, std::int32_t code) {
    std::uint32_t found = 0;
    for (std::uint32_t i = 0; i < table.size(); ++i) {
      found |= table[i] == code ? 1U << i : 0U;
    }
    PHALANX_DCHECK(found != 0, "a code that the format has not");
    return static_cast<std::uint32_t>(std::countr_zero(found)) & 15U;
  }
  [[nodiscard]] static float product(const std::byte* of_superblock, const std::byte* step) {
    return tensor::to_float(read<tensor::F16>(of_superblock)) *
           static_cast<float>(read<std::int8_t>(step));
  }
  [[nodiscard]] std::size_t row_of_scales(std::size_t k) const {
    return traits.group == 0 ? 0 : k / traits.group * (traits.has_minima ? 2 : 1);
  }
  template <typename T>
  [[nodiscard]] static T read(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  [[nodiscard]] std::int32_t bits_at(std::size_t index, std::size_t shift) const {
    return std::to_integer<std::int32_t>(codes[index] >> static_cast<int>(shift));
  }
  // Where codes have fewer than 8 bits: the line of the lower four of element k, and of the others
  // the line and their place in a byte.
  [[nodiscard]] std::size_t nibble_line(std::size_t k) const {
    if (traits.code_bits == 4) {
      return byte_index(k / 8, 0, 0);
    }
    return traits.code_bits == 5 ? byte_index(k / 32 * 5 + k / 8 % 4, 0, 0)
                                 : byte_index(k / 16 * 3 + k / 8 % 2, 0, 0);
  }
  [[nodiscard]] std::size_t upper_line(std::size_t k) const {
    return traits.code_bits == 5 ? byte_index(k / 32 * 5 + 4, 0, 0)
                                 : byte_index(k / 16 * 3 + 2, 0, 0);
  }
  [[nodiscard]] std::size_t upper_shift(std::size_t k) const {
    return traits.code_bits == 5 ? k / 4 % 8 : k / 4 % 4 * 2;
  }
  static std::size_t byte_index(std::size_t quad, std::size_t byte, std::size_t column) {
    return (quad * kStripColumns + column) * 4 + byte;
  }
};

}  // namespace phalanx::kernels
