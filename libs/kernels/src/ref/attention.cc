// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "phalanx/kernels/quantize.h"

#include "ref/entries.h"
#include "ref/int_matmul.h"
#include "ref/row_out.h"
#include "scalar_math.h"

namespace phalanx::kernels::ref {

namespace {

// What is known of one query after some blocks or segments: the integer that weights are relative
// to, the sum of the weights, and their weighted sum of values.
struct Running {
  float maximum = -std::numeric_limits<float>::infinity();
  float denominator = 0.0F;
  float sum[kMaxHeadDim] = {};
};

using PerToken = std::array<float, kKvBlockTokens>;

// One query as its products with keys take it.
class Query {
 public:
  Query(const AttentionArgs& args, const Bf16* q) : args_(args), q_(q) {
    if (args.kv.format == KvFormat::kInt8) {
      std::array<float, kMaxHeadDim> wide{};
      std::transform(
          q, q + args.head_dim, wide.begin(), [](Bf16 x) { return tensor::to_float(x); });
      const QuantizeLeaf leaf{0, args.head_dim};
      quantize({wide.data(), wide.size(), 1, &leaf, 1, codes()}, 0);
    }
  }

  // Of the first `valid` tokens of a block; −∞ for the others.
  PerToken scores(const std::byte* tile, std::size_t valid) {
    PerToken scores{};
    for (std::size_t first = 0; first < kKvBlockTokens; first += kStripColumns) {
      float dots[kStripColumns];
      if (args_.kv.format == KvFormat::kInt8) {
        const WeightView keys{WeightFormat::kInt8G32, args_.head_dim, kKvBlockTokens, tile};
        int_dot_strip(codes(), 0, {keys, 0, 0, true}, static_cast<std::uint32_t>(first), dots);
      } else {
        const auto* keys = reinterpret_cast<const Bf16*>(tile);
        scalar::dot_strip(
            q_, args_.head_dim, keys + packed_index(first, 0, padded_k(args_.head_dim)), dots);
      }
      for (std::size_t i = 0; i < kStripColumns; ++i) {
        const bool is_valid = first + i < valid;
        scores[first + i] =
            is_valid ? dots[i] * args_.scale : -std::numeric_limits<float>::infinity();
      }
    }
    return scores;
  }

 private:
  [[nodiscard]] QuantizedRows codes() {
    return {codes_.data(), kMaxHeadDim, sums_.data(), scales_.data(), ScaleSpan::kBlock};
  }

  const AttentionArgs& args_;
  const Bf16* q_;
  alignas(64) std::array<std::int8_t, kMaxHeadDim> codes_{};
  std::array<std::int32_t, kMaxHeadDim / kDotBlock> sums_{};
  std::array<float, kMaxHeadDim / kDotBlock> scales_{};
};

// The values of one block.
class Values {
 public:
  Values(const AttentionArgs& args, const std::byte* tile)
      : layout_(kv_tile(args.kv.format, args.head_dim)), format_(args.kv.format), tile_(tile) {}

  // What weight w of a token adds to the denominator, and what its value is multiplied by.
  struct Weight {
    float own;
    Bf16 of_value;
  };
  [[nodiscard]] Weight weight(std::size_t token, float w) const {
    if (format_ == KvFormat::kBf16) {
      const Bf16 rounded = tensor::to_bf16(w);
      return {tensor::to_float(rounded), rounded};
    }
    const Bf16 scale = reinterpret_cast<const Bf16*>(tile_ + layout_.value_scales)[token];
    return {w, tensor::to_bf16(w * tensor::to_float(scale))};
  }

  // Dimensions first … first + 15 as [32/2][16][2] bf16, without their scales.
  using Strip = std::array<Bf16, kKvBlockTokens * kStripColumns>;
  [[nodiscard]] Strip strip(std::size_t first) const {
    Strip strip{};
    const std::byte* values = tile_ + layout_.values;
    if (format_ == KvFormat::kBf16) {
      std::copy_n(reinterpret_cast<const Bf16*>(values) + packed_index(first, 0, kKvBlockTokens),
                  strip.size(),
                  strip.begin());
      return strip;
    }
    const auto* codes = reinterpret_cast<const std::int8_t*>(values + first * kKvBlockTokens);
    for (std::size_t token = 0; token < kKvBlockTokens; ++token) {
      for (std::size_t i = 0; i < kStripColumns; ++i) {
        strip[packed_index(i, token, kKvBlockTokens)] =
            tensor::to_bf16(static_cast<float>(codes[token * kStripColumns + i]));
      }
    }
    return strip;
  }

 private:
  KvTile layout_;
  KvFormat format_;
  const std::byte* tile_;
};

// The sums of one segment.
class Segment {
 public:
  explicit Segment(std::uint32_t head_dim) : head_dim_(head_dim) {}

  void add_block(const PerToken& scores, const Values& values) {
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
    PerToken weights{};
    std::array<Bf16, kKvBlockTokens> of_values{};
    for (std::size_t token = 0; token < kKvBlockTokens; ++token) {
      const auto weight = values.weight(token, scalar::exp2((scores[token] - base_) - exponent));
      weights[token] = weight.own;
      of_values[token] = weight.of_value;
    }
    for (std::size_t i = 0; i < 16; ++i) {
      lanes_[i] = (lanes_[i] * correction + weights[i]) + weights[i + 16];
    }
    for (std::size_t first = 0; first < head_dim_; first += kStripColumns) {
      float weighted[kStripColumns];
      scalar::dot_strip(of_values.data(), kKvBlockTokens, values.strip(first).data(), weighted);
      for (std::size_t i = 0; i < kStripColumns; ++i) {
        sum_[first + i] = sum_[first + i] * correction + weighted[i];
      }
    }
    exponent_ = exponent;
  }

  // Requires a block.
  void store(Running* sums) const {
    sums->maximum = base_ + exponent_;
    sums->denominator = scalar::sum_lanes(lanes_);
    std::copy_n(sum_, head_dim_, sums->sum);
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

// One query of a tile.
struct One {
  const AttentionArgs& args;
  const AttentionTile& tile;
  std::uint32_t row;
  std::uint32_t head;  // of queries

  [[nodiscard]] std::uint32_t kv_head() const { return head / args.group; }
  [[nodiscard]] std::size_t position() const {
    return tile.first_position + (row - tile.first_row);
  }
  [[nodiscard]] std::size_t end() const {
    return std::min<std::size_t>(position() + 1, tile.end_token);
  }
};

void fold(const Running& segment, std::uint32_t head_dim, Running* all) {
  const float maximum = segment.maximum > all->maximum ? segment.maximum : all->maximum;
  const float old = scalar::exp2(all->maximum - maximum);
  const float added = scalar::exp2(segment.maximum - maximum);
  all->denominator = all->denominator * old + segment.denominator * added;
  for (std::size_t i = 0; i < head_dim; ++i) {
    all->sum[i] = all->sum[i] * old + segment.sum[i] * added;
  }
  all->maximum = maximum;
}

void write_out(const One& one, const Running& running) {
  const AttentionArgs& args = one.args;
  const RowOut out = {
      args.out, args.out_wide, one.row * args.out_stride + std::size_t{one.head} * args.head_dim};
  const float inverse = 1.0F / running.denominator;
  for (std::size_t i = 0; i < args.head_dim; ++i) {
    // The added zero makes −0 of an empty sum +0, so that the sign of a masked zero cannot show.
    out.store(i, running.sum[i] * inverse + 0.0F);
  }
}

// The sums of the segment that begins at `first`.
Running sums_of_segment(const One& one, Query& query, std::size_t first) {
  const AttentionArgs& args = one.args;
  Segment segment(args.head_dim);
  const std::size_t end = std::min(one.position() + 1, first + kSegmentTokens);
  for (std::size_t token = first; token < end; token += kKvBlockTokens) {
    const std::uint32_t block = one.tile.sequence->blocks[token / kKvBlockTokens];
    const std::byte* keys = args.kv.tile(block, one.kv_head());
    segment.add_block(query.scores(keys, one.position() + 1 - token), Values(args, keys));
  }
  Running sums;
  segment.store(&sums);
  return sums;
}

void attend(const One& one) {
  const AttentionArgs& args = one.args;
  Query query(args, args.q + one.row * args.q_stride + std::size_t{one.head} * args.head_dim);
  Running running;
  for (std::size_t first = one.tile.first_token; first < one.end(); first += kSegmentTokens) {
    const Running segment = sums_of_segment(one, query, first);
    if (one.tile.is_part()) {
      float* record = attention_record(args, *one.tile.sequence, first, one.row, one.head);
      std::copy_n(segment.sum, args.head_dim, record);
      record += padded_columns(args.head_dim);
      record[0] = segment.maximum;
      record[1] = segment.denominator;
    } else {
      fold(segment, args.head_dim, &running);
    }
  }
  if (!one.tile.is_part()) {
    write_out(one, running);
  }
}

void fold_records(const One& one) {
  const AttentionArgs& args = one.args;
  Running running;
  for (std::size_t first = 0; first <= one.position(); first += kSegmentTokens) {
    const float* record = attention_record(args, *one.tile.sequence, first, one.row, one.head);
    const float* tail = record + padded_columns(args.head_dim);
    Running segment{tail[0], tail[1]};
    std::copy_n(record, args.head_dim, segment.sum);
    fold(segment, args.head_dim, &running);
  }
  write_out(one, running);
}

template <typename Each>
void for_queries(const AttentionArgs& args, const AttentionTile& work, Each each) {
  for (std::uint32_t row = work.first_row; row < work.first_row + work.row_count; ++row) {
    for (std::uint32_t i = 0; i < work.head_count * args.group; ++i) {
      each(One{args, work, row, work.kv_head * args.group + i});
    }
  }
}

}  // namespace

void attention(const AttentionArgs& args, std::uint32_t tile) {
  for_queries(args, attention_tile(args, tile), attend);
}

void attention_fold(const AttentionArgs& args, std::uint32_t tile) {
  for_queries(args, attention_fold_tile(args, tile), fold_records);
}

}  // namespace phalanx::kernels::ref
