// SPDX-License-Identifier: Apache-2.0
#pragma once

// Attention of one tile.

#include "phalanx/kernels/attention.h"

#include "lanes/dot_body.h"
#include "lanes/lanes.h"
#include "lanes/math_body.h"

namespace phalanx::kernels {
namespace {

inline constexpr std::size_t kTokens = kKvBlockTokens;
inline constexpr std::size_t kQueryStride =
    kMaxHeadDim + 16;  // keeps queries off the same cache sets
inline constexpr std::size_t kTokenStride = kTokens + 16;

struct Query {
  std::size_t row;
  std::size_t head;
  std::size_t position;
  float maximum;
  float denominator;
};

// kRows queries of one KV head walk the blocks together. A block beyond the position of a query is
// masked whole, which leaves it as it was.
template <std::size_t kRows>
class QueryBlock {
 public:
  QueryBlock(const AttentionArgs& args, const AttentionTile& tile, std::size_t first_query)
      : args_(args), tile_(tile), key_dim_((std::size_t{args.head_dim} + 31) / 32 * 32) {
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::size_t index = first_query + r;
      const std::size_t row = index / args.group;
      queries_[r] = {tile.first_row + row,
                     std::size_t{tile.kv_head} * args.group + index % args.group,
                     tile.first_position + row,
                     -__builtin_inff(),
                     0.0F};
      widen(reinterpret_cast<const std::uint16_t*>(args.q + queries_[r].row * args.q_stride +
                                                   queries_[r].head * args.head_dim),
            args.head_dim,
            q_ + r * kQueryStride,
            key_dim_);
      for (std::size_t i = 0; i < args.head_dim; i += 16) {
        f_store(sums_[i / 16] + r * 16, f_set(0.0F));
      }
    }
  }

  void run() {
    const std::size_t last = queries_[kRows - 1].position;
    for (std::size_t first = 0; first <= last; first += kTokens) {
      const std::size_t block = tile_.sequence->blocks[first / kTokens];
      const auto* keys = reinterpret_cast<const std::uint16_t*>(
          args_.kv.data + block * args_.kv.block_stride + tile_.kv_head * args_.kv.head_stride);
      add_scores(keys);
      for (std::size_t r = 0; r < kRows; ++r) {
        const std::size_t end = queries_[r].position + 1;
        weigh(r, end > first ? end - first : 0);
      }
      add_values(keys + kTokens * key_dim_);
    }
  }

  void store() {
    for (std::size_t r = 0; r < kRows; ++r) {
      const Query& query = queries_[r];
      auto* out = reinterpret_cast<std::uint16_t*>(args_.out + query.row * args_.out_stride +
                                                   query.head * args_.head_dim);
      const F16 inverse = f_set(1.0F / query.denominator);
      for (std::size_t i = 0; i < args_.head_dim; i += 16) {
        const F16 mean = f_load(sums_[i / 16] + r * 16) * inverse + f_set(0.0F);
        i_store_low(out + i, f_to_bf16(mean), 16);
      }
    }
  }

 private:
  void add_scores(const std::uint16_t* keys) {
    for (std::size_t strip = 0; strip < 2; ++strip) {
      for (std::size_t r = 0; r < kRows; ++r) {
        f_store(scores_[strip] + r * 16, f_set(0.0F));
      }
      add_dots<kRows>(q_, kQueryStride, keys + strip * 16 * key_dim_, key_dim_, scores_[strip]);
    }
  }

  // From scores to rounded probabilities and the correction of what was summed before; the first
  // `valid` tokens of the block count.
  void weigh(std::size_t r, std::size_t valid) {
    Query& query = queries_[r];
    const F16 scale = f_set(args_.scale);
    const F16 nothing = f_set(-__builtin_inff());
    F16 low = f_load(scores_[0] + r * 16) * scale;
    F16 high = f_load(scores_[1] + r * 16) * scale;
    low = choose(m_first(valid), low, nothing);
    high = choose(m_first(valid > 16 ? valid - 16 : 0), high, nothing);
    const float maximum = f_largest(f_larger(high, f_larger(low, f_set(query.maximum))));
    // exp(0) = 1; −inf is left to the function, which makes it NaN as the definition does.
    const bool same = maximum == query.maximum && maximum > -__builtin_inff();
    const F16 correction = same ? f_set(1.0F) : f_exp(f_set(query.maximum) - f_set(maximum));
    low = f_of_bf16_bits(f_to_bf16(f_exp(low - f_set(maximum))));
    high = f_of_bf16_bits(f_to_bf16(f_exp(high - f_set(maximum))));
    f_store(probabilities_ + r * kTokenStride, low);
    f_store(probabilities_ + r * kTokenStride + 16, high);
    f_store(corrections_[r], correction);
    query.denominator = query.denominator * corrections_[r][0] + f_sum(low + high);
    query.maximum = maximum;
  }

  void add_values(const std::uint16_t* values) {
    for (std::size_t i = 0; i < args_.head_dim; i += 16) {
      alignas(64) float weighted[kRows * 16];
      for (std::size_t r = 0; r < kRows; ++r) {
        f_store(weighted + r * 16, f_set(0.0F));
      }
      add_dots<kRows>(probabilities_, kTokenStride, values + i * kTokens, kTokens, weighted);
      for (std::size_t r = 0; r < kRows; ++r) {
        float* sum = sums_[i / 16] + r * 16;
        f_store(sum, f_load(sum) * f_load(corrections_[r]) + f_load(weighted + r * 16));
      }
    }
  }

  const AttentionArgs& args_;
  const AttentionTile& tile_;
  std::size_t key_dim_;
  Query queries_[kRows];
  alignas(64) float q_[kRows * kQueryStride];
  alignas(64) float scores_[2][kRows * 16];
  alignas(64) float probabilities_[kRows * kTokenStride];
  alignas(64) float corrections_[kRows][16];
  alignas(64) float sums_[kMaxHeadDim / 16][kRows * 16];
};

template <std::size_t kRows>
[[gnu::noinline]] void run_queries(const AttentionArgs& args,
                                   const AttentionTile& tile,
                                   std::size_t first_query) {
  QueryBlock<kRows> block(args, tile, first_query);
  block.run();
  block.store();
}

template <std::size_t kRows>
void run_some_queries(std::size_t count,
                      const AttentionArgs& args,
                      const AttentionTile& tile,
                      std::size_t first_query) {
  if constexpr (kRows > 1) {
    if (count < kRows) {
      run_some_queries<kRows - 1>(count, args, tile, first_query);
      return;
    }
  }
  run_queries<kRows>(args, tile, first_query);
}

inline void attend_tile(const AttentionArgs& args, std::uint32_t tile) {
  const AttentionTile work = attention_tile(args, tile);
  const std::size_t queries = std::size_t{work.row_count} * args.group;
  for (std::size_t first = 0; first < queries; first += kMaxBlockRows) {
    run_some_queries<kMaxBlockRows>(queries - first, args, work, first);
  }
}

}  // namespace
}  // namespace phalanx::kernels
