// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "phalanx/base/ids.h"
#include "phalanx/step/limits.h"
#include "phalanx/tensor/half.h"
#include "phalanx/tensor/shape.h"

// The memory layouts that kernels read. They are part of the arithmetic version: every instruction
// set reads the same bytes.

namespace phalanx::kernels {

using tensor::Bf16;

inline constexpr std::size_t kStripColumns = 16;  // output columns of one packed strip
inline constexpr std::size_t kDotBlock = 32;      // K elements of one step of a bf16 dot product
inline constexpr std::size_t kKvBlockTokens = step::kBlockTokens;
inline constexpr std::size_t kMaxHeadDim = 256;

[[nodiscard]] constexpr std::size_t padded_columns(std::size_t columns) {
  return tensor::round_up(columns, kStripColumns);
}
[[nodiscard]] constexpr std::size_t padded_k(std::size_t k) {
  return tensor::round_up(k, kDotBlock);
}

// Elements (not bytes) of a packed bf16 matrix with `columns` outputs and `k` inputs.
[[nodiscard]] constexpr std::size_t packed_elements(std::size_t columns, std::size_t k) {
  return padded_columns(columns) * padded_k(k);
}

// Where element (column, k) lies in a packed bf16 matrix [columns/16][K/2][16][2].
[[nodiscard]] constexpr std::size_t packed_index(std::size_t column,
                                                 std::size_t k,
                                                 std::size_t k_padded) {
  return (column / kStripColumns) * kStripColumns * k_padded + (k / 2) * kStripColumns * 2 +
         (column % kStripColumns) * 2 + k % 2;
}

// One KV block of one KV head ("KV tile"): 32 tokens of keys, then of values, both packed as the
// weights are, so that scores and values are dot products like any other:
//
//   keys    [32/16][key_dim/2][16][2]    column = token, K = dimension, zeros from head_dim up
//   values  [head_dim/16][32/2][16][2]   column = dimension, K = token
//
// The owner of the memory zeroes it once; after that only kv_append() writes to it, so tails are
// finite.
[[nodiscard]] constexpr std::size_t kv_tile_key_elements(std::size_t head_dim) {
  return kKvBlockTokens * padded_k(head_dim);
}
[[nodiscard]] constexpr std::size_t kv_tile_elements(std::size_t head_dim) {
  return kv_tile_key_elements(head_dim) + kKvBlockTokens * padded_columns(head_dim);
}

// The KV tiles of one layer and rank: that of (block, kv_head) begins at
// data[block * block_stride + kv_head * head_stride].
struct KvView {
  Bf16* data = nullptr;
  std::size_t block_stride = 0;  // elements
  std::size_t head_stride = 0;   // elements; ≥ kv_tile_elements(head_dim), a multiple of 32
};

}  // namespace phalanx::kernels
