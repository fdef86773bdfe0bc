// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ref/entries.h"
#include "ref/row_out.h"
#include "scalar_math.h"

namespace phalanx::kernels::ref {

namespace {

// What is known of one query after some blocks or segments: the integer that weights are relative
// to, the sum of the rounded weights, and their weighted sum of values.
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

// The sums of one segment.
class Segment {
 public:
  explicit Segment(std::uint32_t head_dim) : head_dim_(head_dim) {}

  void add_block(const Scores& scores, const Bf16* values) {
    float largest = -std::numeric_limits<float>::infinity();
    for (const float score : scores) {
      largest = score > largest ? score : largest;
    }
    if (is_first_) {
      base_ = largest;
      is_first_ = false;
    }
    const float above = std::ceil(largest - base_);
    const float exponent = above > exponent_ ? above : exponent_;
    const float correction = scalar::exp2(exponent_ - exponent);
    std::array<Bf16, kKvBlockTokens> weights{};
    for (std::size_t token = 0; token < kKvBlockTokens; ++token) {
      weights[token] = tensor::to_bf16(scalar::exp2((scores[token] - base_) - exponent));
    }
    for (std::size_t i = 0; i < 16; ++i) {
      lanes_[i] = (lanes_[i] * correction + tensor::to_float(weights[i])) +
                  tensor::to_float(weights[i + 16]);
    }
    for (std::size_t first = 0; first < head_dim_; first += kStripColumns) {
      float weighted[kStripColumns];
      scalar::dot_strip(weights.data(),
                        kKvBlockTokens,
                        values + packed_index(first, 0, kKvBlockTokens),
                        weighted);
      for (std::size_t i = 0; i < kStripColumns; ++i) {
        sum_[first + i] = sum_[first + i] * correction + weighted[i];
      }
    }
    exponent_ = exponent;
  }

  void fold_into(Running* all) const {
    const float own = base_ + exponent_;
    const float maximum = own > all->maximum ? own : all->maximum;
    const float old = scalar::exp2(all->maximum - maximum);
    const float added = scalar::exp2(own - maximum);
    all->denominator = all->denominator * old + scalar::sum_lanes(lanes_) * added;
    for (std::size_t i = 0; i < head_dim_; ++i) {
      all->sum[i] = all->sum[i] * old + sum_[i] * added;
    }
    all->maximum = maximum;
  }

 private:
  std::uint32_t head_dim_;
  bool is_first_ = true;
  // Weights are relative to base + exponent, which is an integer.
  float base_ = 0.0F;
  float exponent_ = 0.0F;
  float lanes_[16] = {};
  float sum_[kMaxHeadDim] = {};
};

void one_query(const AttentionArgs& args,
               const AttentionTile& tile,
               std::uint32_t row,
               std::uint32_t member) {
  const std::size_t head = std::size_t{tile.kv_head} * args.group + member;
  const std::size_t position = tile.first_position + (row - tile.first_row);
  const Bf16* q = args.q + row * args.q_stride + head * args.head_dim;
  Running running;
  for (std::size_t first = 0; first <= position; first += kSegmentTokens) {
    Segment segment(args.head_dim);
    const std::size_t end = std::min(position + 1, first + kSegmentTokens);
    for (std::size_t token = first; token < end; token += kKvBlockTokens) {
      const std::uint32_t block = tile.sequence->blocks[token / kKvBlockTokens];
      const Bf16* kv_tile =
          args.kv.data + block * args.kv.block_stride + tile.kv_head * args.kv.head_stride;
      segment.add_block(block_scores(args, q, kv_tile, position + 1 - token),
                        kv_tile + kv_tile_key_elements(args.head_dim));
    }
    segment.fold_into(&running);
  }
  const RowOut out = {args.out, args.out_wide, row * args.out_stride + head * args.head_dim};
  const float inverse = 1.0F / running.denominator;
  for (std::size_t i = 0; i < args.head_dim; ++i) {
    // The added zero makes −0 of an empty sum +0, so that the sign of a masked zero cannot show.
    out.store(i, running.sum[i] * inverse + 0.0F);
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
