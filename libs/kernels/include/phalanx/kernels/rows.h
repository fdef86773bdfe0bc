// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "phalanx/kernels/weight.h"

// Operations on rows of activations. A tile is a run of kRowTile rows (of one head, where the
// operation has heads); tiles write disjoint outputs.

namespace phalanx::kernels {

inline constexpr std::uint32_t kRowTile = 8;
[[nodiscard]] constexpr std::uint32_t row_tiles(std::uint32_t rows) {
  return (rows + kRowTile - 1) / kRowTile;
}

// x[row] = the embedding of tokens[row], read from a packed weight: bf16, or
// code × scale − minimum.
//
//   table  hidden × vocab, of any format, as packed for lm_head
//   x      [rows, x_stride]  f32, out
//
// Tiles:    row_tiles(rows).
// Requires: 0 ≤ tokens[row] < vocab.
struct EmbeddingArgs {
  WeightView table;
  const TokenId* tokens = nullptr;
  std::uint32_t rows = 0;
  float* x = nullptr;
  std::size_t x_stride = 0;
};
void embedding(const EmbeddingArgs& args, std::uint32_t tile);

// Whether kernels read such a table and its rows fit x. For the place that builds the arguments.
//
// Errors: kInvalidArgument  what was expected and what was found
[[nodiscard]] Status check_embedding(const EmbeddingArgs& args);

// x += delta + delta_bias (when there is a delta), then out = bf16(x · 1/rms(x) · gain), or
// out_wide = that before the rounding, for weights of integers.
//
//   x           [rows, x_stride]      f32, the residual stream, in/out
//   delta       [rows, delta_stride]  f32, or null: nothing is added
//   gain        [hidden]              f32
//   out         [rows, out_stride]    bf16, or null
//   out_wide    [rows, out_stride]    f32, or null; with neither, only the addition is done
//   delta_bias  [hidden]              f32, or null: delta is added as it is
//
// Math: docs/arithmetic.md, "RMS norm" and "Bias".
// Tiles: row_tiles(rows).
struct RmsNormArgs {
  float* x = nullptr;
  std::size_t x_stride = 0;
  const float* delta = nullptr;
  std::size_t delta_stride = 0;
  const float* gain = nullptr;
  float epsilon = 0.0F;  // > 0, added to the mean square
  Bf16* out = nullptr;
  std::size_t out_stride = 0;
  std::uint32_t rows = 0;
  std::uint32_t hidden = 0;
  const float* delta_bias = nullptr;
  float* out_wide = nullptr;
};

// out = bf16(rope(norm(x))) for each head of each row; the norm is left out when gain is null.
//
//   x         [rows, x_stride]         f32, [heads][head_dim] in each row
//   gain      [head_dim]               f32, or null
//   cos, sin  [rows, rope_stride]      f32, head_dim/2 used, from rope_rows()
//   out       [rows, out_stride]       bf16, [heads][head_dim]
//
// Math: docs/arithmetic.md, "Query and key".
// Tiles: row_tiles(rows).
// Requires: head_dim a multiple of 16, ≤ kMaxHeadDim.
struct HeadNormRopeArgs {
  const float* x = nullptr;
  std::size_t x_stride = 0;
  const float* gain = nullptr;
  float epsilon = 0.0F;
  const float* cos = nullptr;
  const float* sin = nullptr;
  std::size_t rope_stride = 0;
  Bf16* out = nullptr;
  std::size_t out_stride = 0;
  std::uint32_t rows = 0;
  std::uint32_t heads = 0;
  std::uint32_t head_dim = 0;
};

// Writes keys and values of rows into their KV slots.
//
//   keys    [rows, key_stride]    bf16, [kv_heads][head_dim]
//   values  [rows, value_stride]  f32, [kv_heads][head_dim], rounded to bf16 or coded here
//   slots   [rows]                block · 32 + token within the block; all different
//
// A key or value that is not finite is written as zero, and counted; in int8 so is a group of a key
// or a whole value. The caller must fail the step when *non_finite is not zero.
//
// Math: docs/arithmetic.md, "KV cache of integers" for int8.
// Tiles: row_tiles(rows) · kv_heads.
// Requires: head_dim a multiple of 16, ≤ kMaxHeadDim.
struct KvAppendArgs {
  const Bf16* keys = nullptr;
  std::size_t key_stride = 0;
  const float* values = nullptr;
  std::size_t value_stride = 0;
  const std::uint64_t* slots = nullptr;
  KvView kv;
  std::uint32_t rows = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::atomic<std::uint64_t>* non_finite = nullptr;
};
[[nodiscard]] std::uint32_t kv_append_tiles(const KvAppendArgs& args);

// out = bf16(silu(gate) · up), or out_wide = that before the rounding, for weights of integers.
//
//   gate, up       [rows, …_stride]    f32
//   out, out_wide  [rows, out_stride]  bf16, f32: one of them, the other null; out_wide may be gate
//
// Math: docs/arithmetic.md, "SwiGLU".
// Tiles: row_tiles(rows).
struct SwigluArgs {
  const float* gate = nullptr;
  std::size_t gate_stride = 0;
  const float* up = nullptr;
  std::size_t up_stride = 0;
  Bf16* out = nullptr;
  std::size_t out_stride = 0;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  float* out_wide = nullptr;
};

}  // namespace phalanx::kernels
