// SPDX-License-Identifier: Apache-2.0
#pragma once

// Drawing a token with Gumbel noise.

#include "phalanx/kernels/vocab.h"

#include "lanes/lanes.h"
#include "lanes/math_body.h"
#include "lanes/vocab_body.h"

namespace phalanx::kernels {
namespace {

// The four words of 16 draws: word w of draw `counter` lane j is words[w] lane j.
PHALANX_LANES void philox(I16 counter, const GumbelKey& key, I16 (&words)[4]) {
  words[0] = counter;
  words[1] = i_set(key.position);
  words[2] = i_set(key.choice);
  words[3] = i_set(kGumbelDomain);
  auto key0 = static_cast<std::uint32_t>(key.seed);
  auto key1 = static_cast<std::uint32_t>(key.seed >> 32);
#pragma GCC unroll 1
  for (int round = 0; round < 10; ++round) {
    const Product first = i_multiply(words[0], 0xD2511F53);
    const Product second = i_multiply(words[2], 0xCD9E8D57);
    words[0] = second.high ^ words[1] ^ i_set(key0);
    words[1] = second.low;
    words[2] = first.high ^ words[3] ^ i_set(key1);
    words[3] = first.low;
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
}

PHALANX_LANES F16 uniform(I16 word) {
  return f_fused(f_of_unsigned(word), f_set(0x1p-32F), f_set(0x1p-33F));
}

PHALANX_LANES F16 gumbel(I16 word) {
  const F16 v = uniform(word);
  F16 series = f_fused(v, f_set(0.25F), f_set(0x1.555556p-2F));
  series = f_fused(series, v, f_set(0.5F));
  series = f_fused(series, v, f_set(1.0F));
  series = series * v;
  const F16 u = f_set(1.0F) - v;
  const F16 smallest = f_set(0x1p-24F);
  const F16 logarithm = f_set(0.0F) - f_log(choose(is_greater(u, smallest), u, smallest));
  const F16 exponential = choose(is_less(v, f_set(0x1p-6F)), series, logarithm);
  return f_set(0.0F) - f_log(exponential);
}

// Lane 4k + j of a vector that holds k + 4j: after transpose_fours() the words of four draws stand
// in token order.
PHALANX_LANES I16 draw_order() {
  const I16 iota = i_iota();
  return i_right<2>(iota) | i_left<2>(iota & i_set(3));
}

// Logits of tokens base + begin … base + end − 1 in lanes begin … end − 1.
PHALANX_LANES F16 load_lanes(const VocabSlice& slice,
                             std::uint32_t base,
                             std::uint32_t begin,
                             std::uint32_t end) {
  const auto first_id = static_cast<std::uint32_t>(slice.first_id);
  if (begin == 0) {
    return f_load_first(slice.logits + (base - first_id), end);
  }
  alignas(64) float lanes[16] = {};
  for (std::uint32_t lane = begin; lane < end; ++lane) {
    lanes[lane] = slice.logits[base + lane - first_id];
  }
  return f_load(lanes);
}

// The best token seen so far in each lane.
struct LaneBest {
  F16 scores;
  I16 ids;
};

PHALANX_LANES void best_of_lanes(const LaneBest& best, VocabPeak* peak) {
  alignas(64) float scores[16];
  alignas(64) std::uint32_t ids[16];
  f_store(scores, best.scores);
  i_store(ids, best.ids);
  *peak = {-__builtin_inff(), -1, true};
  for (int lane = 0; lane < 16; ++lane) {
    const auto id = static_cast<TokenId>(ids[lane]);
    const bool tied = scores[lane] == peak->value && id >= 0 && id < peak->id;
    if (scores[lane] > peak->value || tied) {
      peak->value = scores[lane];
      peak->id = id;
    }
  }
}

// Tokens group … group + 63 of a slice, 16 in each vector, those outside of it or not kept as −inf.
struct TokenGroup {
  F16 logits[4];
  M16 kept[4];
  std::uint32_t any = 0;
};

PHALANX_LANES TokenGroup load_group(const VocabSlice& slice,
                                    const VocabKeep& keep,
                                    std::uint32_t group) {
  const auto first_id = static_cast<std::uint32_t>(slice.first_id);
  const std::uint32_t end_id = first_id + slice.count;
  TokenGroup tokens;
#pragma GCC unroll 4
  for (std::uint32_t w = 0; w < 4; ++w) {
    const std::uint32_t base = group + w * 16;
    const bool outside = base + 16 <= first_id || base >= end_id;
    const std::uint32_t begin = outside ? 0 : base < first_id ? first_id - base : 0;
    const std::uint32_t end = outside ? 0 : end_id - base < 16 ? end_id - base : 16;
    tokens.logits[w] = outside ? f_set(-__builtin_inff()) : load_lanes(slice, base, begin, end);
    tokens.kept[w] = kept_lanes(logit_keys(tokens.logits[w]), i_set(base) + i_iota(), keep) &
                     m_range(begin, end);
    tokens.any |= m_bits(tokens.kept[w]);
  }
  return tokens;
}

PHALANX_LANES void keep_better(F16 scores, I16 ids, LaneBest* best) {
  const M16 better = is_greater(scores, best->scores);
  best->scores = choose(better, scores, best->scores);
  best->ids = choose(better, ids, best->ids);
}

// Whether one of the tokens may get a score above `best`, that of a lower id. The noise of a
// uniform v is at most −log(v), so v must be below exp(l − best); the factor is more than rounding
// adds, to v, to the noise and to the difference.
PHALANX_LANES bool may_exceed(const TokenGroup& tokens, const I16 (&words)[4], float best) {
  constexpr float kMargin = 1.01F;
  F16 largest = f_set(-__builtin_inff());
  F16 least = f_set(1.0F);
#pragma GCC unroll 4
  for (std::uint32_t w = 0; w < 4; ++w) {
    largest = f_larger(choose(tokens.kept[w], tokens.logits[w], largest), largest);
    least = f_smaller(uniform(words[w]), least);
  }
  return m_bits(is_less(least, f_exp(largest - f_set(best)) * f_set(kMargin))) != 0;
}

inline void gumbel_max_slice(const VocabSlice& slice,
                             const VocabKeep& keep,
                             const GumbelKey& key,
                             VocabPeak* peak) {
  const F16 nothing = f_set(-__builtin_inff());
  LaneBest best = {nothing, i_set(0xFFFFFFFF)};
  float largest = -__builtin_inff();
  const F16 floor = f_set(logit_of_key(keep.floor_key));
  const auto first_id = static_cast<std::uint32_t>(slice.first_id);
  const std::uint32_t end_id = first_id + slice.count;
  // 64 tokens share 16 draws, counted from token 0.
  for (std::uint32_t group = first_id / 64 * 64; group < end_id; group += 64) {
    if (group >= first_id && all_below(slice.logits + (group - first_id), end_id - group, floor)) {
      continue;
    }
    const TokenGroup tokens = load_group(slice, keep, group);
    if (tokens.any == 0) {
      continue;
    }
    I16 words[4];
    philox(i_set(group / 4) + draw_order(), key, words);
    transpose_fours(words);
    if (largest > -__builtin_inff() && !may_exceed(tokens, words, largest)) {
      continue;
    }
    for (std::uint32_t w = 0; w < 4; ++w) {
      const F16 scores = choose(tokens.kept[w], tokens.logits[w] + gumbel(words[w]), nothing);
      keep_better(scores, i_set(group + w * 16) + i_iota(), &best);
    }
    largest = f_largest(best.scores);
  }
  best_of_lanes(best, peak);
}

// Each lane makes the four words of its own draw and takes one: few tokens of a list are kept.
inline void gumbel_max_list(const VocabList& list,
                            const VocabKeep& keep,
                            const GumbelKey& key,
                            VocabPeak* peak) {
  const F16 nothing = f_set(-__builtin_inff());
  LaneBest best = {nothing, i_set(0xFFFFFFFF)};
  for (std::size_t i = 0; i < list.count; i += 16) {
    const std::size_t left = list.count - i;
    const F16 logits = f_load_first(list.logits + i, left);
    const I16 ids = i_bits(f_load_first(reinterpret_cast<const float*>(list.ids + i), left));
    const M16 kept = kept_lanes(logit_keys(logits), ids, keep) & m_first(left);
    if (m_bits(kept) == 0) {
      continue;
    }
    I16 words[4];
    philox(i_right<2>(ids), key, words);
    I16 word = words[0];
    for (std::uint32_t place = 1; place < 4; ++place) {
      word = choose(is_equal(ids & i_set(3), i_set(place)), words[place], word);
    }
    keep_better(choose(kept, logits + gumbel(word), nothing), ids, &best);
  }
  best_of_lanes(best, peak);
}

}  // namespace
}  // namespace phalanx::kernels
