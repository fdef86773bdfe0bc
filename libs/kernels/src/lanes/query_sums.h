// SPDX-License-Identifier: Apache-2.0
#pragma once

// The queries of a tile of attention and their sums: what is the same however scores are computed
// and values are added.

#include "phalanx/kernels/attention.h"

#include "lanes/kv_cache_body.h"
#include "lanes/lanes.h"
#include "lanes/math_body.h"
#include "lanes/row_out.h"

namespace phalanx::kernels {
namespace {

// The segments of one query, added up. Its sums are [head_dim], not initialised before the first.
struct FoldedQuery {
  float maximum;
  float denominator;
  float* sums;
};
// What a segment adds.
struct SegmentSums {
  float maximum;
  float denominator;
  const float* sums;
};

// The first segment is taken over as it is: nothing × 0 + its sums × 1.
PHALANX_LANES void fold(const SegmentSums& segment,
                        bool is_first,
                        std::size_t head_dim,
                        FoldedQuery* query) {
  const float before = is_first ? -__builtin_inff() : query->maximum;
  const float maximum = segment.maximum > before ? segment.maximum : before;
  const F16 old = f_exp2(f_set(before) - f_set(maximum));
  const F16 added = f_exp2(f_set(segment.maximum) - f_set(maximum));
  float* sums = query->sums;
  for (std::size_t d = 0; d < head_dim; d += 16) {
    const F16 part = f_load(segment.sums + d) * added;
    f_store(sums + d, is_first ? part : f_load(sums + d) * old + part);
  }
  const float part = segment.denominator * f_first(added);
  query->denominator = is_first ? part : query->denominator * f_first(old) + part;
  query->maximum = maximum;
}

// Where row `row` and query head `head` go.
PHALANX_LANES void store_query(const AttentionArgs& args,
                               std::size_t row,
                               std::size_t head,
                               const FoldedQuery& query) {
  const RowOut out(args.out, args.out_wide, row * args.out_stride + head * args.head_dim);
  const F16 inverse = f_set(1.0F / query.denominator);
  for (std::size_t d = 0; d < args.head_dim; d += 16) {
    out.store(d, f_load(query.sums + d) * inverse + f_set(0.0F), 16);
  }
}

// The queries of a tile that walk the blocks together, [heads][rows][group]. With several heads
// they are all of the tile's. Its buffers are not initialised: they are large.
class QuerySums {
 public:
  QuerySums(const AttentionArgs& args,
            const AttentionTile& tile,
            std::size_t first_query,
            std::size_t count)
      : args_(args), tile_(tile), count_(count), stride_(up_to_32(args.head_dim) + 16) {
    const std::size_t of_head = std::size_t{tile.row_count} * args.group;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t head = (first_query + i) / of_head;
      const std::size_t index = (first_query + i) % of_head;
      Query& query = queries_[i];
      query.row = tile.first_row + index / args.group;
      query.head = (tile.kv_head + head) * args.group + index % args.group;
      query.position = tile.first_position + index / args.group;
      query.folded.sums = sums_ + i * stride_;
    }
  }

  [[nodiscard]] PHALANX_LANES std::size_t count() const { return count_; }
  [[nodiscard]] PHALANX_LANES std::size_t position(std::size_t query) const {
    return queries_[query].position;
  }
  // [head_dim]
  [[nodiscard]] const std::uint16_t* values_of(std::size_t query) const {
    return reinterpret_cast<const std::uint16_t*>(args_.q + queries_[query].row * args_.q_stride +
                                                  queries_[query].head * args_.head_dim);
  }
  [[nodiscard]] std::size_t heads() const { return tile_.head_count; }
  // Of the heads of the tile.
  [[nodiscard]] const std::uint8_t* kv_tile_at(std::size_t position, std::size_t head) const {
    const std::size_t block = tile_.sequence->blocks[position / kTokens];
    return reinterpret_cast<const std::uint8_t*>(args_.kv.data + block * args_.kv.block_stride +
                                                 (tile_.kv_head + head) * args_.kv.head_stride);
  }
  // Sums of values of the segment at hand, [head_dim], so many floats from query to query.
  [[nodiscard]] PHALANX_LANES float* sums(std::size_t query) {
    return segment_sums_ + query * stride_;
  }
  [[nodiscard]] PHALANX_LANES std::size_t stride() const { return stride_; }

  // Calls add_block(first, end) for all blocks that a query looks at, `end` being where the
  // positions end, and end_blocks() before what was summed of a segment is looked at.
  template <typename AddBlock, typename EndBlocks>
  void walk(const AddBlock& add_block, const EndBlocks& end_blocks) {
    const std::size_t last = position(count_ - 1) + 1;
    const std::size_t end = last < tile_.end_token ? last : tile_.end_token;
    for (std::size_t first = tile_.first_token; first < end; first += kSegmentTokens) {
      const std::size_t segment_end = end - first < kSegmentTokens ? end : first + kSegmentTokens;
      begin_segment();
      for (std::size_t block = first; block < segment_end; block += kTokens) {
        add_block(block, end);
      }
      end_blocks();
      end_segment(first);
    }
  }

  // Products of kRows queries and the tokens of a block, [2][rows][16].
  struct Products {
    const float* first;
    std::size_t strip_stride;

    [[nodiscard]] PHALANX_LANES F16 at(std::size_t row, std::size_t strip) const {
      return f_load(first + strip * strip_stride + row * 16);
    }
  };

  // From the products of the block at `first` to weights. With kHides some of its tokens come after
  // a query, and count for nothing.
  //
  //   cache.weights(low, high)    what exponentials of 16 and 16 tokens are worth: `low` and `high`
  //                               are what they add to the denominator
  //   cache.put(row, weights)     takes those of values
  //   cache.before_correction()   all values that were weighed in earlier blocks are added now
  template <bool kHides, std::size_t kRows, typename Cache>
  PHALANX_LANES void weigh(std::size_t query,
                           std::size_t first,
                           const Products& products,
                           const Cache& cache) {
    const F16 nothing = f_set(-__builtin_inff());
    const F16 scale = f_set(args_.scale);
    F16 low[kRows];
    F16 high[kRows];
    F16 largest[kRows];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      low[r] = products.at(r, 0) * scale;
      high[r] = products.at(r, 1) * scale;
      if constexpr (kHides) {
        const std::size_t end = queries_[query + r].position + 1;
        const std::size_t valid = end > first ? end - first : 0;
        low[r] = choose(m_first(valid), low[r], nothing);
        high[r] = choose(m_first(valid > 16 ? valid - 16 : 0), high[r], nothing);
      }
      largest[r] = f_larger(high[r], f_larger(low[r], nothing));
    }
    float maxima[kRows];
    f_largest_of(largest, maxima);
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      const Level level = rise(query + r, first, maxima[r], cache);
      low[r] = (low[r] - f_set(level.base)) - f_set(level.exponent);
      high[r] = (high[r] - f_set(level.base)) - f_set(level.exponent);
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto weights = cache.weights(f_exp2(low[r]), f_exp2(high[r]));
      cache.put(r, weights);
      float* denominator = denominators_[query + r];
      f_store(denominator, (f_load(denominator) + weights.low) + weights.high);
    }
  }

  // Of all of the context.
  void store() const {
    for (std::size_t i = 0; i < count_; ++i) {
      store_query(args_, queries_[i].row, queries_[i].head, queries_[i].folded);
    }
  }

 private:
  // What weights are relative to: base + exponent, which is an integer.
  struct Level {
    float base;
    float exponent;
  };
  struct Query {
    std::size_t row;
    std::size_t head;
    std::size_t position;
    FoldedQuery folded;  // the segments before the one at hand
    Level level;         // of that
  };

  void begin_segment() {
    for (std::size_t i = 0; i < count_; ++i) {
      queries_[i].level.exponent = 0.0F;
      f_store(denominators_[i], f_set(0.0F));
      for (std::size_t d = 0; d < args_.head_dim; d += 16) {
        f_store(sums(i) + d, f_set(0.0F));
      }
    }
  }

  // Adds the segment that begins at `first` to what came before, or keeps it as it is.
  void end_segment(std::size_t first) {
    for (std::size_t i = 0; i < count_; ++i) {
      Query& query = queries_[i];
      if (query.position < first) {
        continue;
      }
      const SegmentSums segment{
          query.level.base + query.level.exponent, f_sum(f_load(denominators_[i])), sums(i)};
      if (tile_.is_part()) {
        keep(query, first, segment);
      } else {
        fold(segment, first == 0, args_.head_dim, &query.folded);
      }
    }
  }

  // The first block of a segment says what weights are relative to; where a later one rises above
  // that, it is by whole powers of two, and what was summed is corrected.
  template <typename Cache>
  PHALANX_LANES Level
  rise(std::size_t index, std::size_t first, float largest, const Cache& cache) {
    Level& level = queries_[index].level;
    if (first % kSegmentTokens == 0) {
      level.base = largest;
    } else if (largest - level.base > level.exponent) {
      const float exponent = __builtin_ceilf(largest - level.base);
      cache.before_correction();
      correct(index, f_exp2(f_set(level.exponent) - f_set(exponent)));
      level.exponent = exponent;
    }
    return level;
  }

  void correct(std::size_t index, F16 correction) {
    f_store(denominators_[index], f_load(denominators_[index]) * correction);
    float* of_query = sums(index);
    for (std::size_t d = 0; d < args_.head_dim; d += 16) {
      f_store(of_query + d, f_load(of_query + d) * correction);
    }
  }

  void keep(const Query& query, std::size_t first, const SegmentSums& segment) {
    float* record = attention_record(args_, *tile_.sequence, first, query.row, query.head);
    for (std::size_t d = 0; d < args_.head_dim; d += 16) {
      f_store(record + d, f_load(segment.sums + d));
    }
    record[args_.head_dim] = segment.maximum;
    record[args_.head_dim + 1] = segment.denominator;
  }

  const AttentionArgs& args_;
  const AttentionTile& tile_;
  std::size_t count_;
  std::size_t stride_;  // floats from query to query
  Query queries_[kAttentionTileQueries];
  alignas(64) float denominators_[kAttentionTileQueries][16];
  alignas(64) float segment_sums_[kAttentionTileQueries * kMaxRowFloats];
  alignas(64) float sums_[kAttentionTileQueries * kMaxRowFloats];
};

}  // namespace
}  // namespace phalanx::kernels
