// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kinds of products of integers, and where the scales of their weights lie.

#include "phalanx/kernels/weight.h"

#include "lanes/lanes.h"

namespace phalanx::kernels {
namespace {

// By how the sums of a leaf are made.
enum class IntDot {
  kInt8Whole,    // one integer sum; scales are of leaves
  kInt8Blocks,   // a scale of activations for each block
  kInt8G32,      // a scale of weights for each block
  kInt4,         // as kInt8G32
  kInt8G16,      // two scales of weights for each block
  kInt5G32,      // as kInt8G32
  kInt8G32Min,   // a scale and a minimum of weights for each block; no weight lies so
  kInt5G32Min,   // as kInt8G32Min
  kInt4G32Min,   // as kInt8G32Min
  kInt8G16Min,   // two scales and minima of weights for each block
  kInt8G32Wide,  // as kInt8G32, scales in f32; no weight lies so
  kInt4Wide,     // as kInt4, scales in f32; no weight lies so
  // Nibbles that stand for codes of a table; otherwise as kInt8G32Wide and kInt8G16.
  kTableG32,
  kTableG16,
  // In two levels; otherwise as kInt8G16, kInt8G32Min and kInt8G16Min.
  kInt6G16K,
  kInt4G16K,
  kInt5G32MinK,
  kInt4G32MinK,
  kInt4G16MinK,
};

template <IntDot kDot>
inline constexpr bool kHasTwoLevels = kDot >= IntDot::kInt6G16K;
// Nibbles are indices into 16 codes.
template <IntDot kDot>
inline constexpr bool kHasTable = kDot == IntDot::kTableG32 || kDot == IntDot::kTableG16;
// What many rows are multiplied by: the same scales in one level, and codes that are cheap to read
// again and again.
template <IntDot kDot>
inline constexpr IntDot kMade =
    kDot == IntDot::kTableG32  ? IntDot::kInt8G32Wide
    : kDot == IntDot::kInt5G32 ? IntDot::kInt8G32
    : kDot == IntDot::kInt6G16K || kDot == IntDot::kInt4G16K || kDot == IntDot::kTableG16
        ? IntDot::kInt8G16
    : kDot == IntDot::kInt5G32Min || kDot == IntDot::kInt5G32MinK ? IntDot::kInt8G32Min
    : kDot == IntDot::kInt4G32MinK                                ? IntDot::kInt4G32Min
    : kDot == IntDot::kInt4G16MinK                                ? IntDot::kInt8G16Min
                                                                  : kDot;
// What one row is multiplied by where a strip is read from its beginning to its end: its scales,
// which come first, as they were laid by.
template <IntDot kDot>
inline constexpr IntDot kReadOn = kDot == IntDot::kInt4 ? IntDot::kInt4Wide : kDot;
template <IntDot kDot>
inline constexpr bool kHasGroups = kDot != IntDot::kInt8Whole&& kDot != IntDot::kInt8Blocks;
template <IntDot kDot>
inline constexpr bool kHasMinima =
    kDot == IntDot::kInt8G32Min || kDot == IntDot::kInt5G32Min || kDot == IntDot::kInt4G32Min ||
    kDot == IntDot::kInt8G16Min || kDot == IntDot::kInt5G32MinK || kDot == IntDot::kInt4G32MinK ||
    kDot == IntDot::kInt4G16MinK;
// Nibbles are codes.
template <IntDot kDot>
inline constexpr bool kIsNibbles =
    kDot == IntDot::kInt4 || kDot == IntDot::kInt4Wide || kDot == IntDot::kInt4G32Min ||
    kDot == IntDot::kInt4G32MinK || kDot == IntDot::kInt4G16K || kDot == IntDot::kInt4G16MinK;
template <IntDot kDot>
inline constexpr bool kIsFiveBits =
    kDot == IntDot::kInt5G32 || kDot == IntDot::kInt5G32Min || kDot == IntDot::kInt5G32MinK;
template <IntDot kDot>
inline constexpr bool kIsSixBits = kDot == IntDot::kInt6G16K;
// Codes are made bytes where they are multiplied.
template <IntDot kDot>
inline constexpr bool kIsUnpacked = kIsFiveBits<kDot> || kIsSixBits<kDot> || kHasTable<kDot>;
// Groups of weights in a block.
template <IntDot kDot>
inline constexpr std::size_t kParts =
    kDot == IntDot::kInt8G16 || kDot == IntDot::kInt8G16Min || kDot == IntDot::kInt6G16K ||
            kDot == IntDot::kInt4G16K || kDot == IntDot::kInt4G16MinK || kDot == IntDot::kTableG16
        ? 2
        : 1;
// Lines of 16 columns, a scale and perhaps a minimum, for each of them.
template <IntDot kDot>
inline constexpr std::size_t kLines = kHasMinima<kDot> ? 2 : 1;
template <IntDot kDot>
inline constexpr std::int32_t kCodeBias =
    kDot == IntDot::kInt6G16K                                                         ? 32
    : kDot == IntDot::kInt5G32                                                        ? 16
    : kDot == IntDot::kInt4 || kDot == IntDot::kInt4Wide || kDot == IntDot::kInt4G16K ? 8
    : kIsNibbles<kDot> || kIsFiveBits<kDot>                                           ? 0
                                                                                      : 128;
// Bytes of the codes of 16 columns for one element of K.
template <IntDot kDot>
inline constexpr std::size_t kCodeRow = kIsNibbles<kDot> || kHasTable<kDot> ? 8
                                        : kIsFiveBits<kDot>                 ? 10
                                        : kIsSixBits<kDot>                  ? 12
                                                                            : 16;
// Bytes of the scales of 16 columns for one block, where there are groups; of their steps, where
// they have two levels.
template <IntDot kDot>
inline constexpr std::size_t kScaleRow =
    kHasTwoLevels<kDot> ? kParts<kDot>* kLines<kDot> * 16
    : kDot == IntDot::kInt8G32 || kDot == IntDot::kInt5G32 || kDot == IntDot::kInt4
        ? std::size_t{32}
        : kParts<kDot>* kLines<kDot> * 64;
// Of a superblock: what its two blocks share, and their steps.
template <IntDot kDot>
inline constexpr std::size_t kSuperHead = kLines<kDot> * 32;
template <IntDot kDot>
inline constexpr std::size_t kSuperRow = kSuperHead<kDot> + 2 * kScaleRow<kDot>;

// Codes are multiplied as unsigned numbers of eight bits.
template <IntDot kDot>
inline constexpr bool kTakesBytes = kCodeRow<kDot> == 16 || kHasTable<kDot>;
// Words of 32 codes of a row, spread for the products.
template <IntDot kDot>
inline constexpr std::size_t kSpreadWords = kTakesBytes<kDot> ? kQuadWords : kPlainWords;

// strip_scale_bytes() and weight_bytes() of one strip, for a padded K.
template <IntDot kDot>
PHALANX_LANES std::size_t scale_bytes(std::size_t padded) {
  if constexpr (kHasTwoLevels<kDot>) {
    return ((padded / 32 + 1) / 2 * kSuperRow<kDot> + 63) / 64 * 64;
  }
  return kHasGroups<kDot> ? (padded / 32 * kScaleRow<kDot> + 63) / 64 * 64 : 64;
}
template <IntDot kDot>
PHALANX_LANES std::size_t strip_bytes(std::size_t padded) {
  return scale_bytes<kDot>(padded) + padded * kCodeRow<kDot>;
}

// The scales of a strip from an element of K on; of a whole superblock, where there are such.
template <IntDot kDot>
PHALANX_LANES const std::uint8_t* scales_from(const std::uint8_t* strip, std::size_t k) {
  if constexpr (kHasTwoLevels<kDot>) {
    return strip + k / kSuperblock * kSuperRow<kDot>;
  } else {
    return strip + k / 32 * kScaleRow<kDot>;
  }
}
// Line kLine of the scales and minima of a block.
template <IntDot kDot, std::size_t kLine>
PHALANX_LANES F16 scale_line(const std::uint8_t* scales, std::size_t block) {
  if constexpr (kHasTwoLevels<kDot>) {
    const std::uint8_t* of_superblock = scales + block / 2 * kSuperRow<kDot>;
    const std::uint8_t* steps = of_superblock + kSuperHead<kDot> + block % 2 * kScaleRow<kDot>;
    return f_load_f16(reinterpret_cast<const std::uint16_t*>(of_superblock) +
                      kLine % kLines<kDot> * 16) *
           f_of_codes(reinterpret_cast<const std::int8_t*>(steps) + kLine * 16);
  } else {
    const std::uint8_t* of_block = scales + block * kScaleRow<kDot>;
    if constexpr (kScaleRow<kDot> == 32) {
      return f_load_f16(reinterpret_cast<const std::uint16_t*>(of_block));
    } else {
      return f_load(reinterpret_cast<const float*>(of_block) + kLine * 16);
    }
  }
}
// The scales of part kPart of the weights of a block.
template <IntDot kDot, std::size_t kPart>
PHALANX_LANES F16 weight_scales(const std::uint8_t* scales, std::size_t block) {
  if constexpr (kHasGroups<kDot>) {
    return scale_line<kDot, kPart * kLines<kDot>>(scales, block);
  } else {
    return f_set(1.0F);
  }
}
// The minima of it; zeros where there are none.
template <IntDot kDot, std::size_t kPart>
PHALANX_LANES F16 weight_minima(const std::uint8_t* scales, std::size_t block) {
  if constexpr (kHasMinima<kDot>) {
    return scale_line<kDot, kPart * kLines<kDot> + 1>(scales, block);
  } else {
    return f_set(0.0F);
  }
}

// The scales and minima of some blocks of a strip as kAs has them, in f32 and one level.
// Requires `scales` as scales_from().
template <IntDot kDot, IntDot kAs>
PHALANX_LANES void lay_by(const std::uint8_t* scales, std::size_t blocks, float* to) {
  constexpr std::size_t kRow = kScaleRow<kAs> / sizeof(float);
  for (std::size_t block = 0; block < blocks; ++block) {
    float* of_block = to + block * kRow;
    f_store(of_block, weight_scales<kDot, 0>(scales, block));
    if constexpr (kHasMinima<kDot>) {
      f_store(of_block + 16, weight_minima<kDot, 0>(scales, block));
    }
    if constexpr (kParts<kDot> == 2) {
      f_store(of_block + kLines<kDot> * 16, weight_scales<kDot, 1>(scales, block));
      if constexpr (kHasMinima<kDot>) {
        f_store(of_block + 48, weight_minima<kDot, 1>(scales, block));
      }
    }
  }
}

// The codes of half kHalf of a block of a strip, 16 elements of K, a byte each, as they are
// multiplied.
// Requires codes of 4, 5 or 6 bits; `table` where there is one.
template <IntDot kDot, std::size_t kHalf>
PHALANX_LANES void load_half(const std::uint8_t* block,
                             const CodeTable* table,
                             CodeBytes (&quads)[4]) {
  if constexpr (kIsSixBits<kDot>) {
    s_load(block + kHalf * 192, quads);
  } else if constexpr (kIsFiveBits<kDot>) {
    v_load<kHalf>(block, quads);
  } else {
    n_load(block + kHalf * 128, &quads[0], &quads[1]);
    n_load(block + kHalf * 128 + 64, &quads[2], &quads[3]);
  }
  if constexpr (kHasTable<kDot>) {
    const CodeBytes biased = c_table(*table);
#pragma GCC unroll 4
    for (CodeBytes& quad : quads) {
      quad = c_look_up(biased, quad);
    }
  }
}
template <IntDot kDot, std::size_t kHalf>
PHALANX_LANES void put_half_in_bytes(const std::uint8_t* block,
                                     const CodeTable* table,
                                     std::uint8_t* to) {
  CodeBytes quads[4];
  load_half<kDot, kHalf>(block, table, quads);
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    c_store(to + i * 64, quads[i]);
  }
}
// The codes of some blocks of a strip as they lie in formats of bytes.
// Requires as load_half().
template <IntDot kDot>
PHALANX_LANES void put_in_bytes(const std::uint8_t* codes,
                                const CodeTable* table,
                                std::size_t blocks,
                                std::uint8_t* to) {
  for (std::size_t block = 0; block < blocks; ++block) {
    put_half_in_bytes<kDot, 0>(codes, table, to);
    put_half_in_bytes<kDot, 1>(codes, table, to + 256);
    codes += 32 * kCodeRow<kDot>;
    to += 512;
  }
}

}  // namespace
}  // namespace phalanx::kernels
