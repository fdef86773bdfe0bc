// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "phalanx/kernels/layout.h"

namespace phalanx::kernels {

// What one scale of quantised activations is for.
enum class ScaleSpan : std::uint8_t {
  kLeaf = 1,   // a leaf of a row
  kBlock = 2,  // 32 codes of a row
};

// Smaller magnitudes are coded as zeros: scales and their inverses are normal numbers.
inline constexpr float kSmallestCoded = 0x1p-100F;

inline constexpr std::size_t kCodeAlignment = 64;  // of code_stride

// Activations as integers: x ≈ code · scale. The codes of each leaf begin at a multiple of 32 and
// are padded to one with zeros. A scale that is NaN says that x was not finite.
// Ownership: borrows.
struct QuantizedRows {
  std::int8_t* codes = nullptr;  // [rows, code_stride], aligned as a block (32); −127 … 127
  std::size_t code_stride = 0;   // a multiple of 64
  // [rows, code_stride / 32] each, one for a block of 32 codes. With ScaleSpan::kLeaf every block
  // of a leaf holds the scale of the leaf, and the sum of the leaf's codes to the end of the block:
  // the last one has that of all.
  std::int32_t* sums = nullptr;  // of the codes
  float* scales = nullptr;
  ScaleSpan span = ScaleSpan::kBlock;
};

// A run of the elements of a row that is quantised by itself: one leaf of the product to come.
struct QuantizeLeaf {
  std::uint32_t first_k = 0;  // its first element of x
  std::uint32_t k = 0;
};

// The code stride that holds these leaves. The codes of a leaf begin after the padded ones of the
// leaves before it: that is MatmulLeaf::first_k of its product.
[[nodiscard]] std::size_t code_stride(const QuantizeLeaf* leaves, std::uint32_t leaf_count);

// out = x as integers.
//
//   x       [rows, x_stride]  f32
//   leaves  [leaf_count]
//
// Math: docs/arithmetic.md, "Integer formats".
// Tiles: row_tiles(rows).
// Requires: out.code_stride ≥ code_stride(leaves, leaf_count).
struct QuantizeArgs {
  const float* x = nullptr;
  std::size_t x_stride = 0;
  std::uint32_t rows = 0;
  const QuantizeLeaf* leaves = nullptr;
  std::uint32_t leaf_count = 0;
  QuantizedRows out;
};

}  // namespace phalanx::kernels
