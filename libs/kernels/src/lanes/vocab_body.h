// SPDX-License-Identifier: Apache-2.0
#pragma once

// Operations over the vocabulary.

#include "phalanx/kernels/vocab.h"

#include "lanes/lanes.h"
#include "lanes/math_body.h"

namespace phalanx::kernels {
namespace {

// Keys that order as the logits do; zeros and denormals are one.
PHALANX_LANES I16 logit_keys(F16 logits) {
  const I16 bits = i_bits(logits);
  const I16 sign = i_set(0x80000000);
  const I16 magnitude = bits & i_set(0x7FFFFFFF);
  const I16 negative = i_right_signed<31>(bits);
  const I16 key = bits ^ (negative | sign);
  return choose(is_above(i_set(0x00800000), magnitude), sign, key);
}

PHALANX_LANES M16 kept_lanes(I16 keys, I16 ids, const VocabKeep& keep) {
  const I16 floor = i_set(keep.floor_key);
  const M16 tied = is_equal(keys, floor);
  const I16 after_last = i_set(static_cast<std::uint32_t>(keep.last_tied_id) + 1);
  return is_above(keys, floor) | (tied & is_above(after_last, ids));
}

PHALANX_LANES I16 masses(F16 logits, float maximum) {
  return i_nearest(f_exp(logits - f_set(maximum)) * f_set(0x1p30F));
}

inline void divide_by_temperature_slice(const float* logits,
                                        float* out,
                                        std::uint32_t count,
                                        float temperature) {
  const F16 divisor = f_set(temperature);
  for (std::size_t i = 0; i < count; i += 16) {
    const std::size_t left = count - i;
    f_store_first(out + i, f_load_first(logits + i, left) / divisor, left);
  }
}

inline void vocab_max_slice(const VocabSlice& slice, VocabPeak* peak) {
  const F16 nothing = f_set(-__builtin_inff());
  F16 largest = nothing;
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < slice.count; i += 16) {
    const std::size_t left = slice.count - i;
    const F16 logits = choose(m_first(left), f_load_first(slice.logits + i, left), nothing);
    largest = f_larger(logits, largest);
    bad |= m_bits(is_nan(logits) | is_equal(logits, f_set(__builtin_inff())));
  }
  peak->value = f_largest(largest);
  peak->id = slice.count == 0 ? -1 : slice.first_id;
  peak->finite = bad == 0;
  const F16 target = f_set(peak->value);
  for (std::size_t i = 0; i < slice.count && peak->value > -__builtin_inff(); i += 16) {
    const std::size_t left = slice.count - i;
    const M16 found = is_equal(f_load_first(slice.logits + i, left), target) & m_first(left);
    if (m_bits(found) != 0) {
      const std::size_t index = i + static_cast<std::size_t>(__builtin_ctz(m_bits(found)));
      peak->value = slice.logits[index];
      peak->id = slice.first_id + static_cast<TokenId>(index);
      return;
    }
  }
}

inline std::int64_t vocab_mass_slice(const VocabSlice& slice,
                                     const VocabKeep& keep,
                                     float maximum) {
  WideSum sum = wide_zero();
  I16 ids = i_set(static_cast<std::uint32_t>(slice.first_id)) + i_iota();
  for (std::size_t i = 0; i < slice.count; i += 16) {
    const std::size_t left = slice.count - i;
    const F16 logits = f_load_first(slice.logits + i, left);
    const M16 kept = kept_lanes(logit_keys(logits), ids, keep) & m_first(left);
    sum = wide_add(sum, choose(kept, masses(logits, maximum), i_set(0)));
    ids = ids + i_set(16);
  }
  return wide_total(sum);
}

inline void vocab_histogram_slice(const VocabHistogramArgs& args, VocabHistogram* histogram) {
  const VocabSlice& slice = args.slice;
  const std::uint32_t above = args.shift == 24 ? 0 : ~std::uint32_t{0} << (args.shift + 8);
  I16 ids = i_set(static_cast<std::uint32_t>(slice.first_id)) + i_iota();
  for (std::size_t i = 0; i < slice.count; i += 16) {
    const std::size_t left = slice.count - i;
    const F16 logits = f_load_first(slice.logits + i, left);
    const I16 keys = logit_keys(logits);
    const M16 counted = is_equal(keys & i_set(above), i_set(args.prefix & above)) &
                        kept_lanes(keys, ids, args.keep) & m_first(left);
    ids = ids + i_set(16);
    std::uint32_t lanes = m_bits(counted);
    if (lanes == 0) {
      continue;
    }
    alignas(64) std::uint32_t key_of[16];
    alignas(64) std::uint32_t mass_of[16];
    i_store(key_of, keys);
    i_store(mass_of, masses(logits, args.maximum));
    for (; lanes != 0; lanes &= lanes - 1) {
      const int lane = __builtin_ctz(lanes);
      const std::uint32_t bucket = (key_of[lane] >> args.shift) & 0xFF;
      ++histogram->count[bucket];
      histogram->mass[bucket] += mass_of[lane];
    }
  }
}

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

PHALANX_LANES F16 gumbel(I16 word) {
  const F16 v = f_fused(f_of_unsigned(word), f_set(0x1p-32F), f_set(0x1p-33F));
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

inline void gumbel_max_slice(const VocabSlice& slice,
                             const VocabKeep& keep,
                             const GumbelKey& key,
                             VocabPeak* peak) {
  const F16 nothing = f_set(-__builtin_inff());
  LaneBest best = {nothing, i_set(0xFFFFFFFF)};
  const auto first_id = static_cast<std::uint32_t>(slice.first_id);
  // 64 tokens share 16 draws, counted from token 0.
  for (std::uint32_t group = first_id / 64 * 64; group < first_id + slice.count; group += 64) {
    const TokenGroup tokens = load_group(slice, keep, group);
    if (tokens.any == 0) {
      continue;
    }
    I16 words[4];
    philox(i_set(group / 4) + draw_order(), key, words);
    transpose_fours(words);
    for (std::uint32_t w = 0; w < 4; ++w) {
      const F16 scores = choose(tokens.kept[w], tokens.logits[w] + gumbel(words[w]), nothing);
      const M16 better = is_greater(scores, best.scores);
      best.scores = choose(better, scores, best.scores);
      best.ids = choose(better, i_set(group + w * 16) + i_iota(), best.ids);
    }
  }
  best_of_lanes(best, peak);
}

}  // namespace
}  // namespace phalanx::kernels
