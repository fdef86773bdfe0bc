// SPDX-License-Identifier: Apache-2.0
#pragma once

// Attention of one tile over a KV cache of bf16, by tile registers.

#include "phalanx/kernels/attention.h"

#include "amx/rounded_pair.h"
#include "amx/tile_step.h"
#include "lanes/attention_body.h"
#include "lanes/query_sums.h"
#include "tables.h"

namespace phalanx::kernels {
namespace {

// Queries of one head that walk the blocks together, up to 2 tiles of them multiplied at once.
// Weights of a few blocks are kept until values are added by them: sums are loaded and stored once
// for all. Rows that fill up the last tile are zeros, or sums that nobody looks at. Its buffers are
// not initialised: they are large.
template <typename Tiles>
class TiledQueries {
 public:
  TiledQueries(const AttentionArgs& args,
               const AttentionTile& tile,
               std::size_t first_query,
               std::size_t count,
               const std::byte* /*after*/)
      : head_dim_(args.head_dim),
        key_dim_(up_to_32(args.head_dim)),
        queries_(args, tile, first_query, count),
        tiles_(TileShape{{kTileRegisterRows, kTileRegisterRows}, kTileRegisterBytes}) {
    const std::size_t padded = padded_count();
    for (std::size_t i = 0; i < padded; ++i) {
      std::uint16_t* q = q_ + i * kMaxRow;
      __builtin_memset(q, 0, key_dim_ * 2);
      if (i < count) {
        __builtin_memcpy(q, queries_.values_of(i), head_dim_ * 2);
      }
    }
    for (std::uint16_t(&weights)[kAttentionTileQueries * kTokens] : weights_) {
      __builtin_memset(weights + count * kTokens, 0, (padded - count) * kTokens * 2);
    }
  }

  void run() {
    queries_.walk([&](std::size_t first, std::size_t /*end*/) { add_block(first); },
                  [&] { end_blocks(); });
  }

  void store() const { queries_.store(); }

 private:
  static constexpr std::size_t kBlocks = 4;                 // whose weights are kept
  static constexpr std::size_t kMaxRow = kMaxHeadDim + 32;  // keeps rows off the same cache sets
  static constexpr std::size_t kMostRows = 2 * kTileRegisterRows;  // at once
  static constexpr std::size_t kWeighed = 8;                       // rows at once
  static_assert(kAttentionTileQueries % kTileRegisterRows == 0);

  // What QuerySums asks for while it weighs rows of the last block.
  struct Weights {
    TiledQueries& all;
    std::uint16_t* rows;  // [kWeighed, kTokens]

    [[nodiscard]] PHALANX_LANES RoundedPair weights(F16 low, F16 high) const {
      return rounded_pair(low, high);
    }
    PHALANX_LANES void put(std::size_t row, const RoundedPair& weights) const {
      store_pair(rows + row * kTokens, weights);
    }
    void before_correction() const { all.add_values(); }
  };

  [[nodiscard]] std::size_t padded_count() const {
    return (queries_.count() + kTileRegisterRows - 1) / kTileRegisterRows * kTileRegisterRows;
  }

  // Scores and weights of the block at `first`; its values are added later.
  void add_block(std::size_t first) {
    const auto* block = reinterpret_cast<const std::byte*>(queries_.kv_tile_at(first, 0));
    for (std::size_t row = 0; row < queries_.count(); row += kMostRows) {
      const std::size_t left = queries_.count() - row;
      const std::size_t rows = left < kMostRows ? left : kMostRows;
      if (queries_.position(row + rows - 1) < first) {
        __builtin_memset(weights_[next_] + row * kTokens, 0, rows * kTokens * 2);
        continue;
      }
      if (rows > kTileRegisterRows) {
        multiply_keys<2>(row, block);
      } else {
        multiply_keys<1>(row, block);
      }
      weigh_rows(row, rows, first);
    }
    values_[next_] = block + kTokens * key_dim_ * 2;
    ++next_;
    if (next_ == kBlocks) {
      end_blocks();
    }
  }

  template <int kRows>
  void multiply_keys(std::size_t row, const std::byte* keys) {
    TileOperands from{reinterpret_cast<const std::byte*>(q_ + row * kMaxRow),
                      kMaxRow * 2,
                      keys,
                      kStripColumns * key_dim_ * 2};
    zero_sums<kRows, 2>(tiles_);
    for (std::size_t k = 0; k < key_dim_; k += kDotBlock) {
      add_step<TileDot::kBf16, kRows, 2>(tiles_, from);
      from.rows += kTileRegisterBytes;
      from.columns += kTileRegisterRows * kTileRegisterBytes;
    }
    store_sums<kRows, 2>(tiles_,
                         {reinterpret_cast<std::byte*>(products_),
                          kTileRegisterBytes,
                          kMostRows * kTileRegisterBytes});
  }

  void weigh_rows(std::size_t row, std::size_t rows, std::size_t first) {
    const bool hides = queries_.position(row) < first + kTokens - 1;
    std::size_t r = 0;
    for (; r + kWeighed <= rows; r += kWeighed) {
      weigh<kWeighed>(row, r, first, hides);
    }
    for (; r < rows; ++r) {
      weigh<1>(row, r, first, hides);
    }
  }

  template <std::size_t kRows>
  void weigh(std::size_t row, std::size_t r, std::size_t first, bool hides) {
    const Weights weights{*this, weights_[next_] + (row + r) * kTokens};
    const QuerySums::Products products{products_ + r * 16, kMostRows * 16};
    if (hides) {
      queries_.template weigh<true, kRows>(row + r, first, products, weights);
    } else {
      queries_.template weigh<false, kRows>(row + r, first, products, weights);
    }
  }

  // The values of all blocks whose weights are kept. A block that is being weighed is not yet one
  // of them.
  void add_values() {
    if (first_ == next_) {
      return;
    }
    const std::size_t padded = padded_count();
    for (std::size_t row = 0; row < padded; row += kMostRows) {
      std::size_t strip = 0;
      for (; strip + 2 <= head_dim_ / 16; strip += 2) {
        add_strips<2>(row, padded - row, strip);
      }
      if (strip < head_dim_ / 16) {
        add_strips<1>(row, padded - row, strip);
      }
    }
    first_ = next_;
  }

  void end_blocks() {
    add_values();
    first_ = 0;
    next_ = 0;
  }

  template <int kColumns>
  void add_strips(std::size_t row, std::size_t rows, std::size_t strip) {
    if (rows > kTileRegisterRows) {
      add_strips_of_rows<2, kColumns>(row, strip);
    } else {
      add_strips_of_rows<1, kColumns>(row, strip);
    }
  }

  template <int kRows, int kColumns>
  void add_strips_of_rows(std::size_t row, std::size_t strip) {
    constexpr std::size_t kStripBytes = kTokens * kStripColumns * 2;
    const TileSumsAt sums{reinterpret_cast<std::byte*>(queries_.sums(row) + strip * 16),
                          queries_.stride() * sizeof(float),
                          16 * sizeof(float)};
    load_sums<kRows, kColumns>(tiles_, sums);
    for (std::size_t block = first_; block < next_; ++block) {
      add_step<TileDot::kBf16, kRows, kColumns>(
          tiles_,
          {reinterpret_cast<const std::byte*>(weights_[block] + row * kTokens),
           kTileRegisterBytes,
           values_[block] + strip * kStripBytes,
           kStripBytes});
    }
    store_sums<kRows, kColumns>(tiles_, sums);
  }

  std::size_t head_dim_;
  std::size_t key_dim_;
  QuerySums queries_;
  Tiles tiles_;
  // Which of the blocks below have weights whose values are not added yet: [first_, next_).
  std::size_t first_ = 0;
  std::size_t next_ = 0;
  const std::byte* values_[kBlocks];
  alignas(64) std::uint16_t weights_[kBlocks][kAttentionTileQueries * kTokens];  // bf16
  alignas(64) std::uint16_t q_[kAttentionTileQueries * kMaxRow];                 // bf16
  alignas(64) float products_[2 * kMostRows * 16];  // [2][kMostRows][16]
};

// Few queries go to the lanes, and so do keys and values in codes.
inline constexpr std::size_t kFewestTiledQueries = 9;
static_assert(kFewestTiledQueries > kFewHeadQueries, "tile registers are for one head");

template <typename Tiles>
void amx_attend_tile(const AttentionArgs& args, std::uint32_t tile) {
  const AttentionTile work = attention_tile(args, tile);
  if (args.kv.format != KvFormat::kBf16 ||
      std::size_t{work.row_count} * args.group < kFewestTiledQueries) {
    avx512vnni_table().attention(args, tile);
    return;
  }
  attend_queries<TiledQueries<Tiles>>(args, work, attention_tile_begins(args, tile + 1));
}

}  // namespace
}  // namespace phalanx::kernels
