// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "phalanx/kernels/layout.h"
#include "phalanx/kernels/read_ahead.h"

namespace phalanx::kernels {

// Queries (rows × heads of a group) that share one pass over keys and values.
inline constexpr std::uint32_t kAttentionTileQueries = 32;
// Queries of a head, at most, where a tile has several heads: so few of them wait for memory, which
// gives more of it the longer the runs are that are read (docs/benchmarks.md).
inline constexpr std::uint32_t kFewHeadQueries = 8;
// Positions are summed in segments of so many, each from nothing, so that a context can be divided.
inline constexpr std::size_t kSegmentTokens = 1024;

// Rows of one sequence in a step: a prefill chunk or a decode, which are the same thing.
struct AttentionSequence {
  std::uint32_t first_row = 0;       // its first row among those of the step
  std::uint32_t row_count = 0;       // ≥ 1
  std::uint32_t first_position = 0;  // position of its first row; row i is at first_position + i
  const std::uint32_t* blocks = nullptr;  // block of positions 32·i … 32·i + 31, up to the last row
  // Written by plan_attention().
  std::uint32_t first_tile = 0;
  std::uint32_t tile_rows = 0;
  std::uint32_t tile_heads = 1;  // KV heads
  std::uint32_t parts = 1;       // of its context, one tile each
  std::uint32_t part_segments = 0;
  std::uint32_t first_fold = 0;    // tile of attention_fold(); only with several parts
  std::uint32_t first_record = 0;  // the same
};

// What is known of a query and a segment before segments are added up: sums of values
// [round_up(head_dim, 16)], the maximum, the denominator. `floats` lie from record to record; those
// of a sequence are [kv_heads][segments][rows][group], from its first_record on.
struct AttentionRecords {
  float* data = nullptr;  // 64-byte aligned
  std::size_t floats = 0;
};
[[nodiscard]] std::size_t attention_record_floats(std::uint32_t head_dim);

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
  // Of sequences with several parts: written by attention(), read by attention_fold(), which writes
  // what attention() writes of the others.
  AttentionRecords records = {};
};

// log2(e)/√head_dim as fp32: the quotient in double, rounded once.
[[nodiscard]] float attention_scale(std::uint32_t head_dim);

// Who computes a step, and what there is room for.
struct AttentionTeam {
  std::uint32_t threads = 1;
  std::uint32_t records = 0;  // with none, no context is divided
};
struct AttentionPlan {
  std::uint32_t tiles = 0;
  std::uint32_t folds = 0;  // tiles of attention_fold()
};
// Divides the work of a step into tiles and fills what each sequence says of them. A tile is few
// enough rows to take some ms, of all of the context. Where queries are few it is of several KV
// heads, whose keys and values of a block follow one another in memory. Tiles that would leave
// threads without work, or take more than some ms, are of fewer heads, or of a run of segments.
// Requires: kv_heads > 0, group > 0.
[[nodiscard]] AttentionPlan plan_attention(std::span<AttentionSequence> sequences,
                                           std::uint32_t kv_heads,
                                           std::uint32_t group,
                                           const AttentionTeam& team);

// What a tile computes: rows [first_row, first_row + row_count) of the step, KV heads [kv_head,
// kv_head + head_count), and the positions [first_token, end_token) of the context. With several
// heads it has no more than kAttentionTileQueries queries. Used by the implementations.
struct AttentionTile {
  const AttentionSequence* sequence = nullptr;
  std::uint32_t first_row = 0;
  std::uint32_t row_count = 0;
  std::uint32_t first_position = 0;
  std::uint32_t kv_head = 0;
  std::uint32_t head_count = 1;
  std::uint32_t first_token = 0;  // a multiple of kSegmentTokens
  std::uint32_t end_token = 0;

  [[nodiscard]] bool is_part() const { return sequence->parts > 1; }
};
[[nodiscard]] AttentionTile attention_tile(const AttentionArgs& args, std::uint32_t tile);
// The first keys of a tile; null behind the last tile.
[[nodiscard]] const std::byte* attention_tile_begins(const AttentionArgs& args, std::uint32_t tile);
// Lists the whole blocks of keys and values that lie `distance` bytes behind those of a tile, but
// for a tile of rows that reads the same as one before it.
void list_behind(const AttentionArgs& args,
                 std::uint32_t tile,
                 std::size_t distance,
                 ReadAhead* ahead);
// That of attention_fold(): of one head, and the whole context.
[[nodiscard]] AttentionTile attention_fold_tile(const AttentionArgs& args, std::uint32_t tile);
// The record of a row of the step and a query head, and of the segment that begins at `token`.
[[nodiscard]] float* attention_record(const AttentionArgs& args,
                                      const AttentionSequence& sequence,
                                      std::size_t token,
                                      std::size_t row,
                                      std::size_t head);

}  // namespace phalanx::kernels
