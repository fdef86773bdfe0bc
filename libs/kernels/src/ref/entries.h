// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phalanx/kernels/kernel_table.h"

// The entries of the `ref` table: the definition of the arithmetic, line by line.

namespace phalanx::kernels::ref {

void matmul(const MatmulArgs& args, std::uint32_t tile);
void quantize(const QuantizeArgs& args, std::uint32_t tile);
void rms_norm(const RmsNormArgs& args, std::uint32_t tile);
void head_norm_rope(const HeadNormRopeArgs& args, std::uint32_t tile);
void kv_append(const KvAppendArgs& args, std::uint32_t tile);
void attention(const AttentionArgs& args, std::uint32_t tile);
void attention_fold(const AttentionArgs& args, std::uint32_t tile);
void swiglu(const SwigluArgs& args, std::uint32_t tile);
void divide_by_temperature(const float* logits, float* out, std::uint32_t count, float temperature);
void vocab_max(const VocabSlice& slice, VocabPeak* peak);
std::int64_t vocab_mass(const VocabSlice& slice, const VocabKeep& keep, float maximum);
void vocab_histogram(const VocabHistogramArgs& args, VocabHistogram* histogram);
bool vocab_list(const VocabListArgs& args, VocabList* list, std::int64_t* unlisted_mass);
void gumbel_max(const VocabSlice& slice,
                const VocabKeep& keep,
                const GumbelKey& key,
                VocabPeak* peak);
void gumbel_max_of_list(const VocabList& list,
                        const VocabKeep& keep,
                        const GumbelKey& key,
                        VocabPeak* peak);

}  // namespace phalanx::kernels::ref
