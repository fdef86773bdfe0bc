// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "phalanx/kernels/layout.h"

namespace phalanx::kernels {

// Queries (rows × heads of a group) that share one pass over keys and values.
inline constexpr std::uint32_t kAttentionTileQueries = 36;
// Positions are summed in segments of so many, each from nothing, so that a context can be divided.
inline constexpr std::size_t kSegmentTokens = 1024;

// Rows of one sequence in a step: a prefill chunk or a decode, which are the same thing.
struct AttentionSequence {
  std::uint32_t first_row = 0;       // its first row among those of the step
  std::uint32_t row_count = 0;       // ≥ 1
  std::uint32_t first_position = 0;  // position of its first row; row i is at first_position + i
  const std::uint32_t* blocks = nullptr;  // block of positions 32·i … 32·i + 31, up to the last row
  std::uint32_t first_tile = 0;           // written by plan_attention()
  std::uint32_t tile_rows = 0;            // written by plan_attention()
};

// Causal attention of every row over the keys and values of its sequence up to its own position,
// which must be in the KV cache already.
//
//   q    [rows, q_stride]    bf16, [kv_heads][group][head_dim] in each row
//   out  [rows, out_stride]  bf16, same shape; may be q itself. Null with out_wide
//   out_wide  [rows, out_stride]  f32, the same before the rounding, for weights of integers; or null
//
// Math: docs/arithmetic.md, "Attention", and "KV cache of integers" where kv is int8. Independent of
// chunking and of the other sequences.
// Requires: head_dim a multiple of 16, ≤ kMaxHeadDim; plan_attention() was called for `sequences`.
struct AttentionArgs {
  const Bf16* q = nullptr;
  std::size_t q_stride = 0;
  Bf16* out = nullptr;
  std::size_t out_stride = 0;
  KvView kv;
  std::uint32_t kv_heads = 0;
  std::uint32_t group = 0;  // query heads per KV head
  std::uint32_t head_dim = 0;
  float scale = 0.0F;  // makes powers of two of dot products: attention_scale(head_dim)
  const AttentionSequence* sequences = nullptr;
  std::uint32_t sequence_count = 0;
  float* out_wide = nullptr;
};

// log2(e)/√head_dim as fp32: the quotient in double, rounded once.
[[nodiscard]] float attention_scale(std::uint32_t head_dim);

// Divides the work of a step into tiles: fills first_tile and tile_rows of each sequence and
// returns the number of tiles. A tile is one KV head and few enough rows to take some ms.
[[nodiscard]] std::uint32_t plan_attention(std::span<AttentionSequence> sequences,
                                           std::uint32_t kv_heads,
                                           std::uint32_t group);

// What a tile computes: rows [first_row, first_row + row_count) of the step, one KV head. Used by
// the implementations.
struct AttentionTile {
  const AttentionSequence* sequence = nullptr;
  std::uint32_t first_row = 0;
  std::uint32_t row_count = 0;
  std::uint32_t first_position = 0;
  std::uint32_t kv_head = 0;
};
[[nodiscard]] AttentionTile attention_tile(const AttentionArgs& args, std::uint32_t tile);

}  // namespace phalanx::kernels
