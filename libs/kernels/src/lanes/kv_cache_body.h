// SPDX-License-Identifier: Apache-2.0
#pragma once

// The KV tiles of each format as attention reads them: scores of queries, and values by weights.
// Both classes have the same functions.

#include "phalanx/kernels/attention.h"

#include "lanes/dot_body.h"
#include "lanes/int_dot_body.h"
#include "lanes/lanes.h"
#include "lanes/math_body.h"
#include "lanes/quantize_body.h"

namespace phalanx::kernels {
namespace {

inline constexpr std::size_t kTokens = kKvBlockTokens;
// From row to row of weights, queries and sums: some floats more keep rows off the same cache sets.
inline constexpr std::size_t kTokenStride = kTokens + 16;
inline constexpr std::size_t kMaxRowFloats = kMaxHeadDim + 16;

PHALANX_LANES std::size_t up_to_32(std::size_t n) {
  return (n + 31) / 32 * 32;
}

// A tile at hand, and where the next one lies from it.
struct TileAt {
  const std::uint8_t* bytes;
  std::ptrdiff_t ahead;  // 0: there is none
};

// Sums of kRows queries and the 32 tokens of a tile, [32/16][kRows][16].
template <std::size_t kRows>
struct TokenSums {
  static constexpr std::size_t kStrip = kRows * 16;
  alignas(64) float all[2 * kStrip];

  PHALANX_LANES void clear() {
    for (std::size_t i = 0; i < 2 * kStrip; i += 16) {
      f_store(all + i, f_set(0.0F));
    }
  }
};

// The weights of 16 tokens: what they add to the denominator, and what values are multiplied by.
struct TokenWeights {
  F16 own;
  F16 of_values;
};

// Keys and values in bf16. Its buffer is not initialised: it is large.
class Bf16Cache {
 public:
  explicit Bf16Cache(std::size_t head_dim) : head_dim_(head_dim), key_dim_(up_to_32(head_dim)) {}

  void take_query(std::size_t index, const std::uint16_t* q) {
    widen(q, head_dim_, q_ + index * kMaxRowFloats, key_dim_);
  }

  template <std::size_t kRows>
  PHALANX_LANES void add_scores(std::size_t query, TileAt tile, TokenSums<kRows>* scores) const {
    const Strips<std::uint16_t> keys{reinterpret_cast<const std::uint16_t*>(tile.bytes),
                                     16 * key_dim_};
    const FetchAhead fetch{tile.ahead};
    add_strips<kRows>(q_ + query * kMaxRowFloats,
                      kMaxRowFloats,
                      keys,
                      kTokens / 16,
                      key_dim_,
                      {scores->all, 16, TokenSums<kRows>::kStrip},
                      fetch);
  }

  // w are the weights of tokens first … first + 15.
  [[nodiscard]] PHALANX_LANES TokenWeights weights(TileAt /*tile*/,
                                                   std::size_t /*first*/,
                                                   F16 w) const {
    const F16 rounded = f_of_bf16_bits(f_to_bf16(w));
    return {rounded, rounded};
  }

  // weights [kRows, kTokenStride]
  template <std::size_t kRows>
  PHALANX_LANES void add_values(TileAt tile, const float* weights, StripSums sums) const {
    const auto* values = reinterpret_cast<const std::uint16_t*>(tile.bytes) + kTokens * key_dim_;
    const Strips<std::uint16_t> strips{values, 16 * kTokens};
    const FetchAhead fetch{tile.ahead};
    add_strips<kRows>(weights, kTokenStride, strips, head_dim_ / 16, kTokens, sums, fetch);
  }

 private:
  std::size_t head_dim_;
  std::size_t key_dim_;
  alignas(64) float q_[kAttentionTileQueries * kMaxRowFloats];
};

// Keys as columns of kInt8G32, values as codes with a scale for each token.
class Int8Cache {
 public:
  explicit Int8Cache(std::size_t head_dim)
      : head_dim_(head_dim),
        blocks_(up_to_32(head_dim) / 32),
        key_strip_(strip_bytes<kDot>(up_to_32(head_dim))) {}

  void take_query(std::size_t index, const std::uint16_t* q) {
    alignas(64) float wide[kMaxHeadDim];
    alignas(64) std::int8_t codes[kMaxHeadDim];
    widen(q, head_dim_, wide, blocks_ * 32);
    std::int32_t* sums = starts_ + index * kMaxBlocks;
    code_leaf(wide,
              blocks_ * 32,
              {codes, kMaxHeadDim, sums, scales_ + index * kMaxBlocks, ScaleSpan::kBlock},
              0);
    for (std::size_t block = 0; block < blocks_; ++block) {
      q_spread(codes + block * 32, spread_ + index * kSpread + block * kSpreadWords<kDot>);
      sums[block] *= -kCodeBias<kDot>;
    }
  }

  template <std::size_t kRows>
  PHALANX_LANES void add_scores(std::size_t query, TileAt tile, TokenSums<kRows>* scores) const {
    const IntRows<kRows, kMaxBlocks> rows{spread_ + query * kSpread,
                                          kSpread,
                                          starts_ + query * kMaxBlocks,
                                          scales_ + query * kMaxBlocks,
                                          nullptr};
    const std::uint8_t* codes = tile.bytes + scale_bytes<kDot>(blocks_ * 32);
    constexpr std::size_t kStrip = TokenSums<kRows>::kStrip;
    const FetchAhead fetch{tile.ahead};
    for (std::size_t strip = 0; strip < 2; strip += kMaxIntStrips) {
      const std::size_t offset = strip * key_strip_;
      add_scaled<kDot, kMaxIntStrips>(rows,
                                      {codes + offset, tile.bytes + offset, key_strip_, key_strip_},
                                      blocks_,
                                      {scores->all + strip * kStrip, kStrip},
                                      fetch);
    }
  }

  // w are the weights of tokens first … first + 15.
  [[nodiscard]] PHALANX_LANES TokenWeights weights(TileAt tile, std::size_t first, F16 w) const {
    const auto* scales = reinterpret_cast<const std::uint16_t*>(tile.bytes + 2 * key_strip_);
    return {w, f_of_bf16_bits(f_to_bf16(w * f_load_bf16(scales + first, 16)))};
  }

  // weights [kRows, kTokenStride]
  template <std::size_t kRows>
  PHALANX_LANES void add_values(TileAt tile, const float* weights, StripSums sums) const {
    const auto* values =
        reinterpret_cast<const std::int8_t*>(tile.bytes) + 2 * key_strip_ + kTokens * sizeof(Bf16);
    const Strips<std::int8_t> strips{values, 16 * kTokens};
    const FetchAhead fetch{tile.ahead};
    add_strips<kRows>(weights, kTokenStride, strips, head_dim_ / 16, kTokens, sums, fetch);
  }

 private:
  static constexpr IntDot kDot = IntDot::kInt8G32;
  static constexpr std::size_t kMaxBlocks = kMaxHeadDim / 32;
  static constexpr std::size_t kSpread = kMaxBlocks * kSpreadWords<kDot> + 16;

  std::size_t head_dim_;
  std::size_t blocks_;     // of a query or key
  std::size_t key_strip_;  // bytes of 16 keys
  alignas(64) std::uint32_t spread_[kAttentionTileQueries * kSpread];
  alignas(64) std::int32_t starts_[kAttentionTileQueries * kMaxBlocks];
  alignas(64) float scales_[kAttentionTileQueries * kMaxBlocks];
};

}  // namespace
}  // namespace phalanx::kernels
