// SPDX-License-Identifier: Apache-2.0
#pragma once

// Attention of one tile.

#include "phalanx/kernels/attention.h"

#include "lanes/dot_body.h"
#include "lanes/lanes.h"
#include "lanes/math_body.h"
#include "lanes/row_out.h"

namespace phalanx::kernels {
namespace {

inline constexpr std::size_t kTokens = kKvBlockTokens;
inline constexpr std::size_t kTokenStride = kTokens + 16;
// From row to row of queries and sums: some floats more keep rows off the same cache sets.
inline constexpr std::size_t kMaxRowFloats = kMaxHeadDim + 16;

// The queries of one KV head that walk the blocks together, so that each block is read once for all
// of them. A block beyond the position of a query leaves it as it was. Its buffers are not
// initialised: they are large.
class QueryTile {
 public:
  QueryTile(const AttentionArgs& args,
            const AttentionTile& tile,
            std::size_t first_query,
            std::size_t count)
      : args_(args),
        tile_(tile),
        count_(count),
        key_dim_((std::size_t{args.head_dim} + 31) / 32 * 32),
        stride_(key_dim_ + 16) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t index = first_query + i;
      Query& query = queries_[i];
      query.row = tile.first_row + index / args.group;
      query.head = std::size_t{tile.kv_head} * args.group + index % args.group;
      query.position = tile.first_position + index / args.group;
      widen(reinterpret_cast<const std::uint16_t*>(args.q + query.row * args.q_stride +
                                                   query.head * args.head_dim),
            args.head_dim,
            q_ + i * stride_,
            key_dim_);
    }
  }

  void run() {
    const std::size_t end = queries_[count_ - 1].position + 1;
    for (std::size_t first = 0; first < end; first += kSegmentTokens) {
      const std::size_t segment_end = end - first < kSegmentTokens ? end : first + kSegmentTokens;
      begin_segment();
      for (std::size_t block = first; block < segment_end; block += kTokens) {
        add_block(block, block + kTokens < end);
      }
      fold_segment(first);
    }
  }

  void store() const {
    for (std::size_t i = 0; i < count_; ++i) {
      const Query& query = queries_[i];
      const RowOut out(
          args_.out, args_.out_wide, query.row * args_.out_stride + query.head * args_.head_dim);
      const F16 inverse = f_set(1.0F / query.denominator);
      for (std::size_t d = 0; d < args_.head_dim; d += 16) {
        out.store(d, f_load(sums_ + i * stride_ + d) * inverse + f_set(0.0F), 16);
      }
    }
  }

 private:
  struct Query {
    std::size_t row;
    std::size_t head;
    std::size_t position;
    // Of the segments before the one at hand.
    float maximum;
    float denominator;
    // Of that: weights are relative to base + exponent, which is an integer.
    float base;
    float exponent;
  };

  void begin_segment() {
    for (std::size_t i = 0; i < count_; ++i) {
      queries_[i].exponent = 0.0F;
      f_store(denominators_[i], f_set(0.0F));
      for (std::size_t d = 0; d < args_.head_dim; d += 16) {
        f_store(segment_sums_ + i * stride_ + d, f_set(0.0F));
      }
    }
  }

  [[nodiscard]] const std::uint16_t* block_at(std::size_t position) const {
    const std::size_t block = tile_.sequence->blocks[position / kTokens];
    return reinterpret_cast<const std::uint16_t*>(args_.kv.data + block * args_.kv.block_stride +
                                                  tile_.kv_head * args_.kv.head_stride);
  }

  void add_block(std::size_t first, bool has_next) {
    const std::uint16_t* keys = block_at(first);
    const std::ptrdiff_t ahead = has_next ? block_at(first + kTokens) - keys : 0;
    for (std::size_t i = 0; i < count_; i += kMaxBlockRows) {
      const std::size_t rows = count_ - i < kMaxBlockRows ? count_ - i : kMaxBlockRows;
      if (queries_[i + rows - 1].position >= first) {
        add_some_rows<kMaxBlockRows>(rows, i, first, keys, ahead);
      }
    }
  }

  template <std::size_t kRows>
  void add_some_rows(std::size_t rows,
                     std::size_t query,
                     std::size_t first,
                     const std::uint16_t* keys,
                     std::ptrdiff_t ahead) {
    if constexpr (kRows > 1) {
      if (rows < kRows) {
        add_some_rows<kRows - 1>(rows, query, first, keys, ahead);
        return;
      }
    }
    add_rows<kRows>(query, first, keys, ahead);
  }

  template <std::size_t kRows>
  [[gnu::noinline]] void add_rows(std::size_t query,
                                  std::size_t first,
                                  const std::uint16_t* keys,
                                  std::ptrdiff_t ahead) {
    // Scores, then the probabilities that come of them.
    alignas(64) float tokens[kRows * kTokenStride];
    for (std::size_t r = 0; r < kRows; ++r) {
      f_store(tokens + r * kTokenStride, f_set(0.0F));
      f_store(tokens + r * kTokenStride + 16, f_set(0.0F));
    }
    add_strips<kRows>(q_ + query * stride_,
                      stride_,
                      {keys, 16 * key_dim_, ahead},
                      kTokens / 16,
                      key_dim_,
                      {tokens, kTokenStride, 16});
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::size_t end = queries_[query + r].position + 1;
      float* scores = tokens + r * kTokenStride;
      weigh(query + r, first, end > first ? end - first : 0, scores);
    }
    add_strips<kRows>(tokens,
                      kTokenStride,
                      {keys + kTokens * key_dim_, 16 * kTokens, ahead},
                      args_.head_dim / 16,
                      kTokens,
                      {segment_sums_ + query * stride_, stride_, 16});
  }

  // From scores to rounded probabilities. The first block of a segment says what they are relative
  // to; where a later one rises above that, it is by whole powers of two, and what was summed is
  // corrected. The first `valid` tokens of the block count.
  void weigh(std::size_t index, std::size_t first, std::size_t valid, float* tokens) {
    Query& query = queries_[index];
    const F16 scale = f_set(args_.scale);
    const F16 nothing = f_set(-__builtin_inff());
    F16 low = choose(m_first(valid), f_load(tokens) * scale, nothing);
    F16 high = choose(m_first(valid > 16 ? valid - 16 : 0), f_load(tokens + 16) * scale, nothing);
    const float largest = f_largest(f_larger(high, f_larger(low, nothing)));
    if (first % kSegmentTokens == 0) {
      query.base = largest;
    } else if (largest - query.base > query.exponent) {
      const float exponent = __builtin_ceilf(largest - query.base);
      correct(index, f_exp2(f_set(query.exponent) - f_set(exponent)));
      query.exponent = exponent;
    }
    low = (low - f_set(query.base)) - f_set(query.exponent);
    high = (high - f_set(query.base)) - f_set(query.exponent);
    low = f_of_bf16_bits(f_to_bf16(f_exp2(low)));
    high = f_of_bf16_bits(f_to_bf16(f_exp2(high)));
    f_store(tokens, low);
    f_store(tokens + 16, high);
    f_store(denominators_[index], (f_load(denominators_[index]) + low) + high);
  }

  void correct(std::size_t index, F16 correction) {
    f_store(denominators_[index], f_load(denominators_[index]) * correction);
    float* sums = segment_sums_ + index * stride_;
    for (std::size_t d = 0; d < args_.head_dim; d += 16) {
      f_store(sums + d, f_load(sums + d) * correction);
    }
  }

  // Adds the segment that begins at `first` to what came before. The first is taken over as it is:
  // nothing × 0 + its sums × 1.
  void fold_segment(std::size_t first) {
    for (std::size_t i = 0; i < count_; ++i) {
      Query& query = queries_[i];
      if (query.position < first) {
        continue;
      }
      const float denominator = f_sum(f_load(denominators_[i]));
      const float before = first == 0 ? -__builtin_inff() : query.maximum;
      const float own = query.base + query.exponent;
      const float maximum = own > before ? own : before;
      const F16 old = f_exp2(f_set(before) - f_set(maximum));
      const F16 added = f_exp2(f_set(own) - f_set(maximum));
      float* sums = sums_ + i * stride_;
      const float* segment = segment_sums_ + i * stride_;
      for (std::size_t d = 0; d < args_.head_dim; d += 16) {
        const F16 part = f_load(segment + d) * added;
        f_store(sums + d, first == 0 ? part : f_load(sums + d) * old + part);
      }
      const float part = denominator * f_first(added);
      query.denominator = first == 0 ? part : query.denominator * f_first(old) + part;
      query.maximum = maximum;
    }
  }

  const AttentionArgs& args_;
  const AttentionTile& tile_;
  std::size_t count_;
  std::size_t key_dim_;
  std::size_t stride_;  // floats from query to query
  Query queries_[kAttentionTileQueries];
  alignas(64) float denominators_[kAttentionTileQueries][16];
  alignas(64) float q_[kAttentionTileQueries * kMaxRowFloats];
  alignas(64) float segment_sums_[kAttentionTileQueries * kMaxRowFloats];
  alignas(64) float sums_[kAttentionTileQueries * kMaxRowFloats];
};

inline void attend_tile(const AttentionArgs& args, std::uint32_t tile) {
  const AttentionTile work = attention_tile(args, tile);
  const std::size_t queries = std::size_t{work.row_count} * args.group;
  for (std::size_t first = 0; first < queries; first += kAttentionTileQueries) {
    const std::size_t left = queries - first;
    QueryTile tile_queries(
        args, work, first, left < kAttentionTileQueries ? left : kAttentionTileQueries);
    tile_queries.run();
    tile_queries.store();
  }
}

}  // namespace
}  // namespace phalanx::kernels
