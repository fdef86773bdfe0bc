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

// Whether the next 64 tokens are all below a floor: most of a row is left out by this alone.
// Requires no NaN among them. Nothing is below a floor that is one.
PHALANX_LANES bool all_below(const float* logits, std::size_t count, F16 floor) {
  if (count < 64) {
    return false;
  }
  const F16 first = f_larger(f_load(logits), f_load(logits + 16));
  const F16 second = f_larger(f_load(logits + 32), f_load(logits + 48));
  return m_bits(is_less(f_larger(first, second), floor)) == 0xFFFF;
}

PHALANX_LANES bool append(const float* logits,
                          std::uint32_t first_id,
                          std::uint32_t lanes,
                          VocabList* list) {
  if (list->count + static_cast<std::uint32_t>(__builtin_popcount(lanes)) > list->capacity) {
    return false;
  }
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(lanes));
    list->logits[list->count] = logits[lane];
    list->ids[list->count++] = static_cast<TokenId>(first_id + lane);
  }
  return true;
}

inline bool vocab_list_slice(const VocabListArgs& args,
                             VocabList* list,
                             std::int64_t* unlisted_mass) {
  const VocabSlice& slice = args.slice;
  const F16 floor = f_set(logit_of_key(args.keep.floor_key));
  const I16 listed_floor = i_set(args.floor_key);
  WideSum unlisted = wide_zero();
  list->count = 0;
  for (std::uint32_t i = 0; i < slice.count;) {
    if (all_below(slice.logits + i, slice.count - i, floor)) {
      i += 64;
      continue;
    }
    for (const std::uint32_t end = i + 64; i < end && i < slice.count; i += 16) {
      const std::uint32_t left = slice.count - i;
      const auto first_id = static_cast<std::uint32_t>(slice.first_id) + i;
      const F16 logits = f_load_first(slice.logits + i, left);
      const I16 keys = logit_keys(logits);
      const M16 kept = kept_lanes(keys, i_set(first_id) + i_iota(), args.keep) & m_first(left);
      const M16 below = kept & is_above(listed_floor, keys);
      if (m_bits(below) != 0) {
        unlisted = wide_add(unlisted, choose(below, masses(logits, args.maximum), i_set(0)));
      }
      if (!append(slice.logits + i, first_id, m_bits(kept) & ~m_bits(below), list)) {
        return false;
      }
    }
  }
  *unlisted_mass = wide_total(unlisted);
  return true;
}

}  // namespace
}  // namespace phalanx::kernels
