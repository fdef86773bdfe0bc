// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the products of integers multiply, and where they leave their sums.

#include <cstddef>
#include <cstdint>

#include "lanes/int_formats_body.h"
#include "lanes/lanes.h"
#include "lanes/tile_body.h"

namespace phalanx::kernels {
namespace {

// A run of blocks of some rows, which have room for kRowBlocks.
template <std::size_t kRows, std::size_t kRowBlocks>
struct IntRows {
  // From part to part of starts and factors.
  static constexpr std::size_t kPartStride = kRows * kRowBlocks;

  const Word* spread;  // [kRows, stride], kSpreadWords for each block
  std::size_t stride;
  // [kRows, kRowBlocks] each, one for a block; of a whole leaf one for all of them, kRowBlocks
  // is 1.
  const std::int32_t* starts;  // [kParts] such: −bias · the sum of the codes
  const float* scales;
  const float* factors;  // [kParts] such where there are minima: −scale · the sum of the codes
};
// The same run of some strips, at equal distances.
struct IntStrips {
  const std::uint8_t* codes;
  const std::uint8_t* scales;        // as scales_from(); without groups [16] floats of the leaf
  std::size_t stride;                // bytes from strip to strip
  std::size_t scale_stride;          // of scales
  const CodeTable* table = nullptr;  // that nibbles are indices into
};
struct IntSums {
  float* first;              // [strips][kRows][16]
  std::size_t strip_stride;  // floats from strip to strip

  [[nodiscard]] float* at(std::size_t row, std::size_t strip) const {
    return first + strip * strip_stride + row * 16;
  }
};
// Whether a run of blocks begins and ends its leaf, and how many subtrees to its left a leaf that
// ends is added to: levels of the sums of a tile.
struct LeafPart {
  bool begins;
  bool ends;
  std::uint32_t merges = 0;
};

// Where such strips begin, in a register each: g++ would otherwise keep a pointer to every
// place within them, and spill.
template <std::size_t kStrips>
class StripPointers {
 public:
  PHALANX_LANES StripPointers(const std::uint8_t* first, std::size_t stride) {
#pragma GCC unroll 2
    for (std::size_t s = 0; s < kStrips; ++s) {
      first_[s] = first + s * stride;
      asm("" : "+r"(first_[s]));
    }
  }
  PHALANX_LANES const std::uint8_t* operator[](std::size_t strip) const {
    return first_[strip];
  }

 private:
  const std::uint8_t* first_[kStrips];
};

// Leaves the sums of a run of blocks where they belong: those of a whole leaf, which it ends, added
// to the subtrees to its left.
template <std::size_t kRows, std::size_t kStrips>
PHALANX_LANES void put_sums(F16 (&total)[kRows][kStrips], LeafPart place, IntSums to) {
  for (std::uint32_t merge = 0; merge < place.merges; ++merge) {
    to.first -= TileSums::kLevelFloats;
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (std::size_t s = 0; s < kStrips; ++s) {
        total[r][s] = f_load(to.at(r, s)) + total[r][s];
      }
    }
  }
#pragma GCC unroll 2
  for (std::size_t s = 0; s < kStrips; ++s) {
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      f_store(to.at(r, s), total[r][s]);
    }
  }
}

}  // namespace
}  // namespace phalanx::kernels
