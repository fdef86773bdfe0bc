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

// A tile at hand, and where the next one lies from it. Of a tile of which no query looks at more
// than kHalf tokens, keys of the other half are not read, nor fetched, and of values only those
// that one looks at.
inline constexpr std::size_t kHalf = kTokens / 2;
struct TileAt {
  const std::uint8_t* bytes;
  std::size_t tokens;       // that a query looks at, ≥ 1
  std::ptrdiff_t ahead;     // to the next one that is fetched; 0: there is none
  std::size_t next_tokens;  // of that

  [[nodiscard]] bool is_half() const { return tokens <= kHalf; }
  // As `ahead`, for its second half.
  [[nodiscard]] std::ptrdiff_t ahead_of_second() const { return next_tokens <= kHalf ? 0 : ahead; }
};

// Few queries wait for memory. It gives most where lines are read in their order and come into the
// first cache: 47 GB/s to two threads where the second cache and two strips at once gave 37 of 51
// (Zen 5). More of them compute, and share between strips what is spread of a query. Narrow lanes
// never take more at once: 512 rows take them as long either way (AVX2, Zen 5). In halves the
// second cache is the better place: 37 to 42 GB/s in place of 34 to 39 of 51 (Zen 4).
template <std::size_t kRows>
inline constexpr bool kIsFew = kRows <= kFewBlockRows;
template <std::size_t kRows, DataPath kPath>
inline constexpr CacheLevel kKvLevel =
    kIsFew<kRows>&& kPath == DataPath::kWhole ? CacheLevel::kFirst : CacheLevel::kSecond;

// Strips that so many queries read at once.
template <std::size_t kRows>
inline constexpr std::size_t kKvStrips = kIsFew<kRows> ? 1 : kBlockStrips<kRows>;
template <std::size_t kRows>
inline constexpr std::size_t kCodedKeyStrips = kIsFew<kRows> ? 1 : kMaxIntStrips;

// What is read of a tile: all of its two strips of keys; all values, of two runs of tokens in each
// strip; keys or values of the first half.
enum class KvLines { kKeys, kValues, kFirstKeys, kFirstValues };

// Brings keys and values of the next tile into the cache while those of this one are read. Line by
// line there is no time for a question: what is not to be fetched is what is being read.
template <KvLines kLines, CacheLevel kLevel>
struct FetchTile {
  std::ptrdiff_t first;       // ahead, of the first strip of keys or half of values
  std::ptrdiff_t second;      // of the second
  std::size_t end = kTokens;  // of tokens whose values are fetched

  template <CacheLevel>
  PHALANX_LANES const FetchTile& begin_block(const void* /*read*/) const {
    return *this;
  }
  template <std::size_t, std::size_t>
  PHALANX_LANES const FetchTile& begin_codes(const void* /*read*/) const {
    return *this;
  }
  PHALANX_LANES void line(const void* read, std::size_t strip, std::size_t k) const {
    if constexpr (kLines == KvLines::kFirstKeys) {
      fetch(read, first);
      fetch(read, second);
    } else if constexpr (kLines == KvLines::kFirstValues) {
      fetch(read, k < end ? first : 0);
      fetch(read, second);
    } else if constexpr (kLines == KvLines::kKeys) {
      fetch(read, strip == 0 ? first : second);
    } else {
      const std::ptrdiff_t of_first = k < end ? first : 0;
      fetch(read, k < kHalf ? of_first : second);
    }
  }

 private:
  PHALANX_LANES static void fetch(const void* read, std::ptrdiff_t ahead) {
    fetch_to<kLevel>(static_cast<const std::byte*>(read) + ahead);
  }
};
template <CacheLevel kLevel>
using FetchKeys = FetchTile<KvLines::kKeys, kLevel>;
template <CacheLevel kLevel>
using FetchValues = FetchTile<KvLines::kValues, kLevel>;

// For a line of half a tile the one at its place, and that in the second half, `half` bytes on.
template <KvLines kLines, CacheLevel kLevel>
PHALANX_LANES FetchTile<kLines, kLevel> fetch_both(TileAt tile, std::ptrdiff_t half) {
  const std::ptrdiff_t second = tile.ahead_of_second();
  return {tile.ahead, second == 0 ? 0 : second + half, tile.next_tokens};
}

// sums [kRows] += the values of a tile's strips by weights [kRows, kTokenStride].
template <std::size_t kRows, bool kIsHalf, CacheLevel kLevel, typename Element, typename Factor>
PHALANX_LANES void add_weighed(
    TileAt tile, const Element* values, std::size_t strips, const Factor* weights, StripSums sums) {
  // What a step reads with the last of them is fetched, too.
  constexpr std::size_t kStep = 2 * Multiplier<Factor>::kLines;
  tile.next_tokens = (tile.next_tokens + kStep - 1) / kStep * kStep;
  const Strips<Element> from{values, 16 * kTokens};
  const FactorRows<Factor> rows{weights, {kTokenStride, kBlockFactors<Factor>}};
  if constexpr (kIsHalf) {
    const auto fetch =
        fetch_both<KvLines::kFirstValues, kLevel>(tile, 16 * kHalf * sizeof(Element));
    add_strips<kRows, kHalf, kKvStrips<kRows>>(rows, from, strips, tile.tokens, sums, fetch);
  } else {
    const FetchValues<kLevel> fetch{tile.ahead, tile.ahead_of_second(), tile.next_tokens};
    add_strips<kRows, 32, kKvStrips<kRows>>(rows, from, strips, kTokens, sums, fetch);
  }
}

// Sums of kRows queries and the 32 tokens of a tile, [32/16][kRows][16].
template <std::size_t kRows>
struct TokenSums {
  static constexpr std::size_t kStrip = kRows * 16;
  alignas(64) float all[2 * kStrip];

  [[nodiscard]] float* at(std::size_t row, std::size_t strip) {
    return all + strip * kStrip + row * 16;
  }
  [[nodiscard]] const float* at(std::size_t row, std::size_t strip) const {
    return all + strip * kStrip + row * 16;
  }

  PHALANX_LANES void clear() {
    for (std::size_t i = 0; i < 2 * kStrip; i += 16) {
      f_store(all + i, f_set(0.0F));
    }
  }
};

// The weights of the 16 and 16 tokens of a tile: what they add to the denominator, and what values
// are multiplied by.
struct TokenWeights {
  F16 low;
  F16 high;
  F16 low_of_values;
  F16 high_of_values;
};

// Keys and values in bf16. Its buffer is not initialised: it is large.
template <typename FactorOfRows>
class Bf16Cache {
 public:
  using Factor = FactorOfRows;  // of queries and of weights

  explicit Bf16Cache(std::size_t head_dim) : head_dim_(head_dim), key_dim_(up_to_32(head_dim)) {}

  void take_query(std::size_t index, const std::uint16_t* q) {
    store_row(q_ + index * kMaxRowFloats, q, head_dim_, key_dim_);
  }

  template <std::size_t kRows, bool kIsHalf, CacheLevel kLevel>
  PHALANX_LANES void add_scores(std::size_t query, TileAt tile, TokenSums<kRows>* scores) const {
    Strips<std::uint16_t> keys{reinterpret_cast<const std::uint16_t*>(tile.bytes), 16 * key_dim_};
    StripSums sums{scores->all, 16, TokenSums<kRows>::kStrip};
    const FactorRows<Factor> q{q_ + query * kMaxRowFloats, {kMaxRowFloats, kBlockFactors<Factor>}};
    if constexpr (kIsHalf) {
      const auto fetch = fetch_both<KvLines::kFirstKeys, kLevel>(
          tile, static_cast<std::ptrdiff_t>(16 * key_dim_ * sizeof(Bf16)));
      add_strips<kRows>(q, keys, 1, key_dim_, sums, fetch);
    } else {
      constexpr std::size_t kStrips = kKvStrips<kRows>;
      for (std::size_t strip = 0; strip < 2; strip += kStrips) {
        const std::ptrdiff_t second = tile.ahead_of_second();
        const FetchKeys<kLevel> fetch{strip == 0 ? tile.ahead : second, second};
        add_dots<kRows, kStrips>(q, keys, key_dim_, sums, fetch);
        keys.first += kStrips * keys.stride;
        sums.first += kStrips * sums.strip_stride;
      }
    }
  }

  [[nodiscard]] PHALANX_LANES TokenWeights weights(TileAt /*tile*/, F16 low, F16 high) const {
    const F16 rounded_low = f_round_to_bf16(low);
    const F16 rounded_high = f_round_to_bf16(high);
    return {rounded_low, rounded_high, rounded_low, rounded_high};
  }

  // weights [kRows, kTokenStride]
  template <std::size_t kRows, bool kIsHalf, CacheLevel kLevel>
  PHALANX_LANES void add_values(TileAt tile, const Factor* weights, StripSums sums) const {
    const auto* values = reinterpret_cast<const std::uint16_t*>(tile.bytes) + kTokens * key_dim_;
    add_weighed<kRows, kIsHalf, kLevel>(tile, values, head_dim_ / 16, weights, sums);
  }

 private:
  std::size_t head_dim_;
  std::size_t key_dim_;
  alignas(64) Factor q_[kAttentionTileQueries * kMaxRowFloats];
};

// Keys as columns of kInt8G32, values as codes with a scale for each token.
class Int8Cache {
 public:
  using Factor = float;

  explicit Int8Cache(std::size_t head_dim)
      : head_dim_(head_dim),
        blocks_(up_to_32(head_dim) / 32),
        key_strip_(strip_bytes<kDot>(up_to_32(head_dim))) {}

  void take_query(std::size_t index, const std::uint16_t* q) {
    alignas(64) float wide[kMaxHeadDim];
    alignas(64) std::int8_t codes[kMaxHeadDim];
    store_row(wide, q, head_dim_, blocks_ * 32);
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

  template <std::size_t kRows, bool kIsHalf, CacheLevel kLevel>
  PHALANX_LANES void add_scores(std::size_t query, TileAt tile, TokenSums<kRows>* scores) const {
    const IntRows<kRows, kMaxBlocks> rows{spread_ + query * kSpread,
                                          kSpread,
                                          starts_ + query * kMaxBlocks,
                                          scales_ + query * kMaxBlocks,
                                          nullptr};
    const std::uint8_t* codes = tile.bytes + scale_bytes<kDot>(blocks_ * 32);
    constexpr std::size_t kStrip = TokenSums<kRows>::kStrip;
    const auto add = [&]<std::size_t kStrips>(std::size_t strip, const auto& fetch) {
      const std::size_t offset = strip * key_strip_;
      add_scaled<kDot, kStrips>(rows,
                                {codes + offset, tile.bytes + offset, key_strip_, key_strip_},
                                blocks_,
                                {true, true},
                                {scores->all + strip * kStrip, kStrip},
                                fetch);
    };
    if constexpr (kIsHalf) {
      add.template operator()<1>(
          0,
          fetch_both<KvLines::kFirstKeys, kLevel>(tile, static_cast<std::ptrdiff_t>(key_strip_)));
    } else {
      const std::ptrdiff_t second = tile.ahead_of_second();
      constexpr std::size_t kStrips = kCodedKeyStrips<kRows>;
      for (std::size_t strip = 0; strip < 2; strip += kStrips) {
        const FetchKeys<kLevel> fetch{strip == 0 ? tile.ahead : second, second};
        add.template operator()<kStrips>(strip, fetch);
      }
    }
  }

  [[nodiscard]] PHALANX_LANES TokenWeights weights(TileAt tile, F16 low, F16 high) const {
    const auto* scales = reinterpret_cast<const std::uint16_t*>(tile.bytes + 2 * key_strip_);
    return {low,
            high,
            f_round_to_bf16(low * f_load_bf16(scales, 16)),
            f_round_to_bf16(high * f_load_bf16(scales + 16, 16))};
  }

  // weights [kRows, kTokenStride]
  template <std::size_t kRows, bool kIsHalf, CacheLevel kLevel>
  PHALANX_LANES void add_values(TileAt tile, const float* weights, StripSums sums) const {
    const auto* values =
        reinterpret_cast<const std::int8_t*>(tile.bytes) + 2 * key_strip_ + kTokens * sizeof(Bf16);
    add_weighed<kRows, kIsHalf, kLevel>(tile, values, head_dim_ / 16, weights, sums);
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
