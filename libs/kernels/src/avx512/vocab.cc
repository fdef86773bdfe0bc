// SPDX-License-Identifier: Apache-2.0
#include "avx512/entries.h"
#include "lanes/vocab_body.h"

namespace phalanx::kernels::avx512 {

void vocab_max(const VocabSlice& slice, VocabPeak* peak) {
  vocab_max_slice(slice, peak);
}

std::int64_t vocab_mass(const VocabSlice& slice, const VocabKeep& keep, float maximum) {
  return vocab_mass_slice(slice, keep, maximum);
}

void vocab_histogram(const VocabHistogramArgs& args, VocabHistogram* histogram) {
  vocab_histogram_slice(args, histogram);
}

void gumbel_max(const VocabSlice& slice,
                const VocabKeep& keep,
                const GumbelKey& key,
                VocabPeak* peak) {
  gumbel_max_slice(slice, keep, key, peak);
}

}  // namespace phalanx::kernels::avx512
