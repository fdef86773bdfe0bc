// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/attention.h"

#include <array>
#include <limits>

#include "ref/entries.h"
#include "scalar_math.h"

namespace phalanx::kernels::ref {

namespace {

// What is known of one query after some blocks: the largest score, the sum of the rounded
// probabilities relative to it, and their weighted sum of values.
struct Running {
  float maximum = -std::numeric_limits<float>::infinity();
  float denominator = 0.0F;
  float sum[kMaxHeadDim] = {};
};

using Scores = std::array<float, kKvBlockTokens>;

Scores block_scores(const AttentionArgs& args, const Bf16* q, const Bf16* keys, std::size_t valid) {
  Scores scores{};
  for (std::size_t strip = 0; strip < kKvBlockTokens / kStripColumns; ++strip) {
    float dots[kStripColumns];
    scalar::dot_strip(q,
                      args.head_dim,
                      keys + packed_index(strip * kStripColumns, 0, padded_k(args.head_dim)),
                      dots);
    for (std::size_t i = 0; i < kStripColumns; ++i) {
      const std::size_t token = strip * kStripColumns + i;
      scores[token] =
          token < valid ? dots[i] * args.scale : -std::numeric_limits<float>::infinity();
    }
  }
  return scores;
}

void add_block(const AttentionArgs& args,
               const Bf16* q,
               const Bf16* tile,
               std::size_t valid,
               Running* running) {
  const Scores scores = block_scores(args, q, tile, valid);
  float maximum = running->maximum;
  for (const float score : scores) {
    maximum = score > maximum ? score : maximum;
  }
  const float correction = scalar::exp(running->maximum - maximum);
  std::array<Bf16, kKvBlockTokens> probabilities{};
  float lanes[16] = {};
  for (std::size_t token = 0; token < kKvBlockTokens; ++token) {
    probabilities[token] = tensor::to_bf16(scalar::exp(scores[token] - maximum));
    lanes[token % 16] = lanes[token % 16] + tensor::to_float(probabilities[token]);
  }
  running->denominator = running->denominator * correction + scalar::sum_lanes(lanes);
  const Bf16* values = tile + kv_tile_key_elements(args.head_dim);
  for (std::size_t first = 0; first < args.head_dim; first += kStripColumns) {
    float weighted[kStripColumns];
    scalar::dot_strip(probabilities.data(),
                      kKvBlockTokens,
                      values + packed_index(first, 0, kKvBlockTokens),
                      weighted);
    for (std::size_t i = 0; i < kStripColumns; ++i) {
      running->sum[first + i] = running->sum[first + i] * correction + weighted[i];
    }
  }
  running->maximum = maximum;
}

void one_query(const AttentionArgs& args,
               const AttentionTile& tile,
               std::uint32_t row,
               std::uint32_t member) {
  const std::size_t head = std::size_t{tile.kv_head} * args.group + member;
  const std::size_t position = tile.first_position + (row - tile.first_row);
  const Bf16* q = args.q + row * args.q_stride + head * args.head_dim;
  Running running;
  for (std::size_t first = 0; first <= position; first += kKvBlockTokens) {
    const std::uint32_t block = tile.sequence->blocks[first / kKvBlockTokens];
    add_block(args,
              q,
              args.kv.data + block * args.kv.block_stride + tile.kv_head * args.kv.head_stride,
              position + 1 - first,
              &running);
  }
  Bf16* out = args.out + row * args.out_stride + head * args.head_dim;
  const float inverse = 1.0F / running.denominator;
  for (std::size_t i = 0; i < args.head_dim; ++i) {
    // The added zero makes −0 of an empty sum +0, so that the sign of a masked zero cannot show.
    out[i] = tensor::to_bf16(running.sum[i] * inverse + 0.0F);
  }
}

}  // namespace

void attention(const AttentionArgs& args, std::uint32_t tile) {
  const AttentionTile work = attention_tile(args, tile);
  for (std::uint32_t row = work.first_row; row < work.first_row + work.row_count; ++row) {
    for (std::uint32_t member = 0; member < args.group; ++member) {
      one_query(args, work, row, member);
    }
  }
}

}  // namespace phalanx::kernels::ref
