// SPDX-License-Identifier: Apache-2.0
#pragma once

// Attention of one tile.

#include "phalanx/kernels/attention.h"

#include "lanes/kv_cache_body.h"
#include "lanes/lanes.h"
#include "lanes/query_sums.h"

namespace phalanx::kernels {
namespace {

// The queries of a tile, and what a block of keys and values adds to some of them. Nothing here
// depends on the DataPath, so that both share what is compiled. Its buffers are not initialised:
// they are large.
template <typename Cache>
class QueryRows {
 public:
  QueryRows(const AttentionArgs& args,
            const AttentionTile& tile,
            std::size_t first_query,
            std::size_t count)
      : sums_(args, tile, first_query, count), cache_(args.head_dim) {
    for (std::size_t i = 0; i < count; ++i) {
      cache_.take_query(i, sums_.values_of(i));
    }
  }

  [[nodiscard]] PHALANX_LANES QuerySums& sums() { return sums_; }
  [[nodiscard]] PHALANX_LANES const QuerySums& sums() const { return sums_; }

  // Adds the block at `first`, `tile` of it, to kRows queries from `query` on.
  template <std::size_t kRows, bool kIsHalf, CacheLevel kLevel>
  [[gnu::noinline]] void add(std::size_t query, std::size_t first, TileAt tile) {
    TokenSums<kRows> scores;
    scores.clear();
    cache_.template add_scores<kRows, kIsHalf, kLevel>(query, tile, &scores);
    alignas(64) Factor rows[kRows * kTokenStride];
    const QuerySums::Products products{scores.all, TokenSums<kRows>::kStrip};
    const Weights weights{cache_, tile, rows};
    if constexpr (!kIsFew<kRows>) {
      weigh_many<kRows>(query, first, products, weights);
    } else if (sums_.position(query) < first + kTokens - 1) {
      sums_.template weigh<true, kRows>(query, first, products, weights);
    } else {
      sums_.template weigh<false, kRows>(query, first, products, weights);
    }
    cache_.template add_values<kRows, kIsHalf, kLevel>(
        tile, rows, {sums_.sums(query), sums_.stride(), 16});
  }

 private:
  using Factor = typename Cache::Factor;

  // What QuerySums asks of a cache while it weighs.
  struct Weights {
    const Cache& cache;
    TileAt tile;
    Factor* rows;  // [kRows, kTokenStride]

    [[nodiscard]] PHALANX_LANES TokenWeights weights(F16 low, F16 high) const {
      return cache.weights(tile, low, high);
    }
    PHALANX_LANES void put(std::size_t row, const TokenWeights& weights) const {
      store_block(rows + row * kTokenStride, weights.low_of_values, weights.high_of_values);
    }
    PHALANX_LANES void before_correction() const {}  // values are added block by block
  };

  // Many queries compute so much that it costs nothing to call, nor to look for tokens to hide
  // where there are none. Whole and half tiles share it.
  template <std::size_t kRows>
  [[gnu::noinline]] void weigh_many(std::size_t query,
                                    std::size_t first,
                                    QuerySums::Products products,
                                    Weights weights) {
    sums_.template weigh<true, kRows>(query, first, products, weights);
  }

  QuerySums sums_;
  Cache cache_;
};

// Queries that walk the blocks together, so that each block is read once for all of them, some rows
// multiplied at once. A block beyond the position of a query leaves it as it was.
template <typename Cache, DataPath kPath>
class QueryTile {
 public:
  QueryTile(const AttentionArgs& args,
            const AttentionTile& tile,
            std::size_t first_query,
            std::size_t count,
            const std::byte* after)
      : after_(reinterpret_cast<const std::uint8_t*>(after)),
        rows_(args, tile, first_query, count) {}

  void run() {
    queries().walk([&](std::size_t first, std::size_t end) { add_block(first, end); }, [] {});
  }

  void store() const { rows_.sums().store(); }

 private:
  static constexpr std::size_t kAtOnce = kRowsAtOnce<kPath>;

  [[nodiscard]] PHALANX_LANES QuerySums& queries() { return rows_.sums(); }

  // The block at `first` of the positions up to `end`, head by head.
  void add_block(std::size_t first, std::size_t end) {
    const std::size_t left = end - first;
    const std::size_t heads = queries().heads();
    const std::size_t of_head = queries().count() / heads;
    const std::uint8_t* at = queries().kv_tile_at(first, 0);
    const std::uint8_t* after = left > kTokens ? queries().kv_tile_at(first + kTokens, 0) : after_;
    const std::size_t tokens_after =
        left > kTokens && left < 2 * kTokens ? left - kTokens : kTokens;
    for (std::size_t head = 0; head < heads; ++head) {
      const bool is_last = head + 1 == heads;
      const std::uint8_t* next = is_last ? after : queries().kv_tile_at(first, head + 1);
      const TileAt tile{at, 0, next != nullptr ? next - at : 0, is_last ? tokens_after : left};
      add_head(head * of_head, (head + 1) * of_head, first, tile);
      at = next;
    }
  }

  // Queries [query, end) of one head. The first rows fetch the next tile.
  void add_head(std::size_t query, std::size_t end, std::size_t first, TileAt tile) {
    for (std::size_t i = query; i < end; i += kAtOnce) {
      const std::size_t rows = end - i < kAtOnce ? end - i : kAtOnce;
      const std::size_t position = queries().position(i + rows - 1);
      if (position >= first) {
        tile.tokens = position + 1 - first;
        add_some_rows<kAtOnce>(rows, i, first, tile);
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
    constexpr CacheLevel kLevel = kKvLevel<kRows, kPath>;
    if (tile.is_half()) {
      rows_.template add<kRows, true, kLevel>(query, first, tile);
    } else {
      rows_.template add<kRows, false, kLevel>(query, first, tile);
    }
  }

  const std::uint8_t* after_;  // what is read after the last block, or null
  QueryRows<Cache> rows_;
};

template <typename Queries>
void attend_queries(const AttentionArgs& args, const AttentionTile& work, const std::byte* after) {
  const std::size_t queries = std::size_t{work.row_count} * args.group * work.head_count;
  for (std::size_t first = 0; first < queries; first += kAttentionTileQueries) {
    const std::size_t left = queries - first;
    Queries tile_queries(
        args, work, first, left < kAttentionTileQueries ? left : kAttentionTileQueries, after);
    tile_queries.run();
    if (!work.is_part()) {
      tile_queries.store();
    }
  }
}

template <typename Cache, DataPath kPath>
void attend_tile_of(const AttentionArgs& args, std::uint32_t tile) {
  // A thread takes tiles in their order: the beginning of the next one comes into the cache with
  // the last block of this one.
  attend_queries<QueryTile<Cache, kPath>>(
      args, attention_tile(args, tile), attention_tile_begins(args, tile + 1));
}

template <DataPath kPath>
void attend_tile(const AttentionArgs& args, std::uint32_t tile) {
  if (args.kv.format == KvFormat::kInt8) {
    attend_tile_of<Int8Cache, DataPath::kWhole>(args, tile);
  } else {
    attend_tile_of<Bf16Cache<float>, kPath>(args, tile);
  }
}

inline void fold_tile(const AttentionArgs& args, std::uint32_t tile) {
  const AttentionTile work = attention_fold_tile(args, tile);
  alignas(64) float sums[kMaxHeadDim];
  for (std::size_t i = 0; i < std::size_t{work.row_count} * args.group; ++i) {
    const std::size_t row = i / args.group;
    const std::size_t head = std::size_t{work.kv_head} * args.group + i % args.group;
    FoldedQuery query{0.0F, 0.0F, sums};
    for (std::size_t first = 0; first <= work.first_position + row; first += kSegmentTokens) {
      const float* record =
          attention_record(args, *work.sequence, first, work.first_row + row, head);
      const float* tail = record + args.head_dim;
      fold({tail[0], tail[1], record}, first == 0, args.head_dim, &query);
    }
    store_query(args, work.first_row + row, head, query);
  }
}

}  // namespace
}  // namespace phalanx::kernels
