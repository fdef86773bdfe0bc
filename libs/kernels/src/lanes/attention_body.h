// SPDX-License-Identifier: Apache-2.0
#pragma once

// Attention of one tile.

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

// The queries of one KV head that walk the blocks together, so that each block is read once for all
// of them, kRowsAtOnce multiplied at once. A block beyond the position of a query leaves it as it
// was. Its buffers are not initialised: they are large.
template <typename Cache, std::size_t kRowsAtOnce>
class QueryTile {
 public:
  QueryTile(const AttentionArgs& args,
            const AttentionTile& tile,
            std::size_t first_query,
            std::size_t count,
            const std::byte* after)
      : args_(args),
        tile_(tile),
        after_(reinterpret_cast<const std::uint8_t*>(after)),
        count_(count),
        stride_(up_to_32(args.head_dim) + 16),
        cache_(args.head_dim) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t index = first_query + i;
      Query& query = queries_[i];
      query.row = tile.first_row + index / args.group;
      query.head = std::size_t{tile.kv_head} * args.group + index % args.group;
      query.position = tile.first_position + index / args.group;
      query.folded.sums = sums_ + i * stride_;
      cache_.take_query(i,
                        reinterpret_cast<const std::uint16_t*>(args.q + query.row * args.q_stride +
                                                               query.head * args.head_dim));
    }
  }

  void run() {
    const std::size_t last = queries_[count_ - 1].position + 1;
    const std::size_t end = last < tile_.end_token ? last : tile_.end_token;
    for (std::size_t first = tile_.first_token; first < end; first += kSegmentTokens) {
      const std::size_t segment_end = end - first < kSegmentTokens ? end : first + kSegmentTokens;
      begin_segment();
      for (std::size_t block = first; block < segment_end; block += kTokens) {
        add_block(block, end);
      }
      end_segment(first);
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
        f_store(segment_sums_ + i * stride_ + d, f_set(0.0F));
      }
    }
  }

  [[nodiscard]] const std::uint8_t* tile_at(std::size_t position) const {
    const std::size_t block = tile_.sequence->blocks[position / kTokens];
    return reinterpret_cast<const std::uint8_t*>(args_.kv.data + block * args_.kv.block_stride +
                                                 tile_.kv_head * args_.kv.head_stride);
  }

  // The block at `first` of the positions up to `end`. Its first rows fetch the next one.
  void add_block(std::size_t first, std::size_t end) {
    const std::uint8_t* bytes = tile_at(first);
    const std::size_t left = end - first;
    const std::uint8_t* next = left > kTokens ? tile_at(first + kTokens) : after_;
    TileAt tile{bytes,
                0,
                next != nullptr ? next - bytes : 0,
                left > kTokens && left < 2 * kTokens ? left - kTokens : kTokens};
    for (std::size_t i = 0; i < count_; i += kRowsAtOnce) {
      const std::size_t rows = count_ - i < kRowsAtOnce ? count_ - i : kRowsAtOnce;
      const std::size_t position = queries_[i + rows - 1].position;
      if (position >= first) {
        tile.tokens = position + 1 - first;
        add_some_rows<kRowsAtOnce>(rows, i, first, tile);
        tile.ahead = 0;
      }
    }
  }

  template <std::size_t kRows>
  void add_some_rows(std::size_t rows, std::size_t query, std::size_t first, TileAt tile) {
    if constexpr (kRows > 1) {
      if (rows < kRows) {
        add_some_rows<kRows - 1>(rows, query, first, tile);
        return;
      }
    }
    if (tile.is_half()) {
      add_rows<kRows, true>(query, first, tile);
    } else {
      add_rows<kRows, false>(query, first, tile);
    }
  }

  template <std::size_t kRows, bool kIsHalf>
  [[gnu::noinline]] void add_rows(std::size_t query, std::size_t first, TileAt tile) {
    TokenSums<kRows> scores;
    scores.clear();
    cache_.template add_scores<kRows, kIsHalf>(query, tile, &scores);
    alignas(64) float weights[kRows * kTokenStride];
    if (queries_[query].position < first + kTokens - 1) {
      weigh<true>(query, first, scores, tile, weights);
    } else {
      weigh<false>(query, first, scores, tile, weights);
    }
    cache_.template add_values<kRows, kIsHalf>(
        tile, weights, {segment_sums_ + query * stride_, stride_, 16});
  }

  // From scores to weights of values [kRows, kTokenStride]. With kHides some of the tokens of the
  // block at `first` come after a query, and count for nothing.
  template <bool kHides, std::size_t kRows>
  PHALANX_LANES void weigh(std::size_t query,
                           std::size_t first,
                           const TokenSums<kRows>& scores,
                           TileAt tile,
                           float* weights) {
    const F16 nothing = f_set(-__builtin_inff());
    const F16 scale = f_set(args_.scale);
    F16 low[kRows];
    F16 high[kRows];
    F16 largest[kRows];
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      low[r] = f_load(scores.at(r, 0)) * scale;
      high[r] = f_load(scores.at(r, 1)) * scale;
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
      const Level level = rise(query + r, first, maxima[r]);
      low[r] = (low[r] - f_set(level.base)) - f_set(level.exponent);
      high[r] = (high[r] - f_set(level.base)) - f_set(level.exponent);
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < kRows; ++r) {
      const TokenWeights of_low = cache_.weights(tile, 0, f_exp2(low[r]));
      const TokenWeights of_high = cache_.weights(tile, 16, f_exp2(high[r]));
      f_store(weights + r * kTokenStride, of_low.of_values);
      f_store(weights + r * kTokenStride + 16, of_high.of_values);
      float* denominator = denominators_[query + r];
      f_store(denominator, (f_load(denominator) + of_low.own) + of_high.own);
    }
  }

  // The first block of a segment says what weights are relative to; where a later one rises above
  // that, it is by whole powers of two, and what was summed is corrected.
  PHALANX_LANES Level rise(std::size_t index, std::size_t first, float largest) {
    Level& level = queries_[index].level;
    if (first % kSegmentTokens == 0) {
      level.base = largest;
    } else if (largest - level.base > level.exponent) {
      const float exponent = __builtin_ceilf(largest - level.base);
      correct(index, f_exp2(f_set(level.exponent) - f_set(exponent)));
      level.exponent = exponent;
    }
    return level;
  }

  void correct(std::size_t index, F16 correction) {
    f_store(denominators_[index], f_load(denominators_[index]) * correction);
    float* sums = segment_sums_ + index * stride_;
    for (std::size_t d = 0; d < args_.head_dim; d += 16) {
      f_store(sums + d, f_load(sums + d) * correction);
    }
  }

  // Adds the segment that begins at `first` to what came before, or keeps it as it is.
  void end_segment(std::size_t first) {
    for (std::size_t i = 0; i < count_; ++i) {
      Query& query = queries_[i];
      if (query.position < first) {
        continue;
      }
      const SegmentSums segment{query.level.base + query.level.exponent,
                                f_sum(f_load(denominators_[i])),
                                segment_sums_ + i * stride_};
      if (tile_.is_part()) {
        keep(query, first, segment);
      } else {
        fold(segment, first == 0, args_.head_dim, &query.folded);
      }
    }
  }

  void keep(const Query& query, std::size_t first, const SegmentSums& segment) {
    float* record = attention_record(args_, tile_, first, query.row, query.head % args_.group);
    for (std::size_t d = 0; d < args_.head_dim; d += 16) {
      f_store(record + d, f_load(segment.sums + d));
    }
    record[args_.head_dim] = segment.maximum;
    record[args_.head_dim + 1] = segment.denominator;
  }

  const AttentionArgs& args_;
  const AttentionTile& tile_;
  const std::uint8_t* after_;  // what is read after the last block, or null
  std::size_t count_;
  std::size_t stride_;  // floats from query to query
  Cache cache_;
  Query queries_[kAttentionTileQueries];
  alignas(64) float denominators_[kAttentionTileQueries][16];
  alignas(64) float segment_sums_[kAttentionTileQueries * kMaxRowFloats];
  alignas(64) float sums_[kAttentionTileQueries * kMaxRowFloats];
};

template <typename Cache, std::size_t kRowsAtOnce>
void attend_queries(const AttentionArgs& args, const AttentionTile& work, const std::byte* after) {
  const std::size_t queries = std::size_t{work.row_count} * args.group;
  for (std::size_t first = 0; first < queries; first += kAttentionTileQueries) {
    const std::size_t left = queries - first;
    QueryTile<Cache, kRowsAtOnce> tile_queries(
        args, work, first, left < kAttentionTileQueries ? left : kAttentionTileQueries, after);
    tile_queries.run();
    if (!work.is_part()) {
      tile_queries.store();
    }
  }
}

template <std::size_t kRowsAtOnce>
void attend_tile(const AttentionArgs& args, std::uint32_t tile) {
  const AttentionTile work = attention_tile(args, tile);
  // A thread takes tiles in their order: the beginning of the next one comes into the cache with
  // the last block of this one.
  const std::byte* after = attention_tile_begins(args, tile + 1);
  if (args.kv.format == KvFormat::kInt8) {
    attend_queries<Int8Cache, kRowsAtOnce>(args, work, after);
  } else {
    attend_queries<Bf16Cache, kRowsAtOnce>(args, work, after);
  }
}

inline void fold_tile(const AttentionArgs& args, std::uint32_t tile) {
  const AttentionTile work = attention_fold_tile(args, tile);
  alignas(64) float sums[kMaxHeadDim];
  for (std::size_t i = 0; i < std::size_t{work.row_count} * args.group; ++i) {
    const std::size_t row = i / args.group;
    const std::size_t member = i % args.group;
    FoldedQuery query{0.0F, 0.0F, sums};
    for (std::size_t first = 0; first <= work.first_position + row; first += kSegmentTokens) {
      const float* record = attention_record(args, work, first, work.first_row + row, member);
      const float* tail = record + args.head_dim;
      fold({tail[0], tail[1], record}, first == 0, args.head_dim, &query);
    }
    store_query(args, work.first_row + row, work.kv_head * args.group + member, query);
  }
}

}  // namespace
}  // namespace phalanx::kernels
