// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/vocab.h"

#include <cmath>
#include <limits>

#include "phalanx/base/philox.h"

#include "ref/entries.h"
#include "scalar_math.h"

namespace phalanx::kernels::ref {

namespace {

bool is_kept(float logit, TokenId id, const VocabKeep& keep) {
  return kernels::is_kept(logit_key(logit), id, keep);
}

TokenId id_of(const VocabSlice& slice, std::uint32_t index) {
  return slice.first_id + static_cast<TokenId>(index);
}

// One draw makes the words of four neighbouring tokens.
std::uint32_t random_word(const GumbelKey& key, TokenId id) {
  const auto token = static_cast<std::uint32_t>(id);
  const auto words = philox4x32(
      {token / 4, key.position, key.choice, kGumbelDomain},
      {static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32)});
  return words[token % 4];
}

void draw(TokenId id, float logit, const VocabKeep& keep, const GumbelKey& key, VocabPeak* peak) {
  if (!is_kept(logit, id, keep)) {
    return;
  }
  const float score = logit + scalar::gumbel(random_word(key, id));
  if (score > peak->value) {
    peak->value = score;
    peak->id = id;
  }
}

}  // namespace

void divide_by_temperature(const float* logits,
                           float* out,
                           std::uint32_t count,
                           float temperature) {
  for (std::uint32_t i = 0; i < count; ++i) {
    out[i] = logits[i] / temperature;
  }
}

void vocab_max(const VocabSlice& slice, VocabPeak* peak) {
  *peak = {-std::numeric_limits<float>::infinity(), slice.count == 0 ? -1 : slice.first_id, true};
  for (std::uint32_t i = 0; i < slice.count; ++i) {
    const float logit = slice.logits[i];
    if (std::isnan(logit) || logit == std::numeric_limits<float>::infinity()) {
      peak->finite = false;
    }
    if (logit > peak->value) {
      peak->value = logit;
      peak->id = id_of(slice, i);
    }
  }
}

std::int64_t vocab_mass(const VocabSlice& slice, const VocabKeep& keep, float maximum) {
  std::int64_t sum = 0;
  for (std::uint32_t i = 0; i < slice.count; ++i) {
    if (is_kept(slice.logits[i], id_of(slice, i), keep)) {
      sum += scalar::mass(slice.logits[i], maximum);
    }
  }
  return sum;
}

void vocab_histogram(const VocabHistogramArgs& args, VocabHistogram* histogram) {
  const std::uint32_t above = args.shift == 24 ? 0 : ~std::uint32_t{0} << (args.shift + 8);
  for (std::uint32_t i = 0; i < args.slice.count; ++i) {
    const float logit = args.slice.logits[i];
    const std::uint32_t key = logit_key(logit);
    if ((key & above) == (args.prefix & above) && is_kept(logit, id_of(args.slice, i), args.keep)) {
      const std::uint32_t bucket = (key >> args.shift) & 0xFF;
      ++histogram->count[bucket];
      histogram->mass[bucket] += scalar::mass(logit, args.maximum);
    }
  }
}

bool vocab_list(const VocabListArgs& args, VocabList* list, std::int64_t* unlisted_mass) {
  list->count = 0;
  *unlisted_mass = 0;
  for (std::uint32_t i = 0; i < args.slice.count; ++i) {
    const float logit = args.slice.logits[i];
    const TokenId id = id_of(args.slice, i);
    if (!is_kept(logit, id, args.keep)) {
      continue;
    }
    if (logit_key(logit) < args.floor_key) {
      *unlisted_mass += scalar::mass(logit, args.maximum);
      continue;
    }
    if (list->count == list->capacity) {
      return false;
    }
    list->logits[list->count] = logit;
    list->ids[list->count++] = id;
  }
  return true;
}

void gumbel_max(const VocabSlice& slice,
                const VocabKeep& keep,
                const GumbelKey& key,
                VocabPeak* peak) {
  *peak = {-std::numeric_limits<float>::infinity(), -1, true};
  for (std::uint32_t i = 0; i < slice.count; ++i) {
    draw(id_of(slice, i), slice.logits[i], keep, key, peak);
  }
}

void gumbel_max_of_list(const VocabList& list,
                        const VocabKeep& keep,
                        const GumbelKey& key,
                        VocabPeak* peak) {
  *peak = {-std::numeric_limits<float>::infinity(), -1, true};
  for (std::uint32_t i = 0; i < list.count; ++i) {
    draw(list.ids[i], list.logits[i], keep, key, peak);
  }
}

}  // namespace phalanx::kernels::ref
