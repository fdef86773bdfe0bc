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

using KvFormat = step::KvFormat;

// One KV block of one KV head ("KV tile"): 32 tokens of keys, then of values, packed so that scores
// and sums of values are dot products like any other. In bf16 both are packed as weights are:
//
//   keys    [32/16][key_dim/2][16][2]    column = token, K = dimension, zeros from head_dim up
//   values  [head_dim/16][32/2][16][2]   column = dimension, K = token
//
// In int8 keys are a packed weight of WeightFormat::kInt8G32 with a column for each token, and
// values have one scale for each token:
//
//   keys          2 strips: [key_dim/32][16] f16 scales, up to 64 bytes, [key_dim/4][16][4] code + 128
//   value scales  [32] bf16
//   values        [head_dim/16][32][16] codes
//
// The owner of the memory zeroes it once; after that only kv_append() writes to it, so tails are
// finite.
struct KvTile {
  std::size_t values = 0;        // bytes from the beginning of the tile
  std::size_t value_scales = 0;  // the same; kInt8 only
  std::size_t bytes = 0;         // of the tile, a multiple of 64
};
[[nodiscard]] constexpr KvTile kv_tile(KvFormat format, std::size_t head_dim) {
  const std::size_t columns = padded_columns(head_dim);
  if (format == KvFormat::kBf16) {
    const std::size_t keys = kKvBlockTokens * padded_k(head_dim) * sizeof(Bf16);
    return {keys, 0, keys + kKvBlockTokens * columns * sizeof(Bf16)};
  }
  constexpr std::size_t kStrips = kKvBlockTokens / kStripColumns;
  const std::size_t groups = padded_k(head_dim) / kDotBlock;
  const std::size_t strip = tensor::round_up(groups * kStripColumns * sizeof(tensor::F16), 64) +
                            padded_k(head_dim) * kStripColumns;
  const std::size_t scales = kStrips * strip;
  const std::size_t values = scales + kKvBlockTokens * sizeof(Bf16);
  return {values, scales, values + kKvBlockTokens * columns};
}

// The KV tiles of one layer and rank: that of (block, kv_head) begins at
// data[block * block_stride + kv_head * head_stride].
struct KvView {
  std::byte* data = nullptr;     // 64-byte aligned
  std::size_t block_stride = 0;  // bytes
  std::size_t head_stride = 0;   // bytes; ≥ kv_tile(format, head_dim).bytes, a multiple of 64
  KvFormat format = KvFormat::kBf16;

  [[nodiscard]] std::byte* tile(std::size_t block, std::size_t kv_head) const {
    return data + block * block_stride + kv_head * head_stride;
  }
};

}  // namespace phalanx::kernels
