// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "phalanx/kernels/attention.h"
#include "phalanx/kernels/isa.h"
#include "phalanx/kernels/matmul.h"
#include "phalanx/kernels/quantize.h"
#include "phalanx/kernels/rope.h"
#include "phalanx/kernels/rows.h"
#include "phalanx/kernels/vocab.h"

namespace phalanx::kernels {

// The arithmetic of one instruction set. Every entry gives the bits of the `ref` table
// (docs/arithmetic.md); operations without an entry here (embedding, rope_rows, packing) have one
// implementation for all.
//
// An entry with a tile computes that tile of the operation: the caller runs every tile in
// [0, …_tiles) once, in any order, on any threads, all in the float mode of float_mode.h. Entries
// allocate nothing, keep no state, and never wait.
struct KernelTable {
  Isa isa = Isa::kRef;

  void (*matmul)(const MatmulArgs& args, std::uint32_t tile) = nullptr;
  void (*quantize)(const QuantizeArgs& args, std::uint32_t tile) = nullptr;
  void (*rms_norm)(const RmsNormArgs& args, std::uint32_t tile) = nullptr;
  void (*head_norm_rope)(const HeadNormRopeArgs& args, std::uint32_t tile) = nullptr;
  void (*kv_append)(const KvAppendArgs& args, std::uint32_t tile) = nullptr;
  void (*attention)(const AttentionArgs& args, std::uint32_t tile) = nullptr;
  void (*attention_fold)(const AttentionArgs& args, std::uint32_t tile) = nullptr;
  void (*swiglu)(const SwigluArgs& args, std::uint32_t tile) = nullptr;

  // out[i] = logits[i] / temperature; in place is allowed. Requires temperature > 0.
  void (*divide_by_temperature)(const float* logits,
                                float* out,
                                std::uint32_t count,
                                float temperature) = nullptr;
  // The largest logit of a slice.
  void (*vocab_max)(const VocabSlice& slice, VocabPeak* peak) = nullptr;
  // Sum over the slice's kept tokens of round(exp(logit − maximum) · 2^30). `maximum` is that of
  // the whole row and finite.
  std::int64_t (*vocab_mass)(const VocabSlice& slice,
                             const VocabKeep& keep,
                             float maximum) = nullptr;
  // Adds the slice to the histogram.
  void (*vocab_histogram)(const VocabHistogramArgs& args, VocabHistogram* histogram) = nullptr;
  // Lists the slice's tokens that are kept and not below floor_key, and sums the masses of those
  // that are kept and below. False when there are more to list than the list can hold: neither is
  // of use then.
  bool (*vocab_list)(const VocabListArgs& args,
                     VocabList* list,
                     std::int64_t* unlisted_mass) = nullptr;
  // Among the kept tokens the one with the largest logit + Gumbel noise, ties to the lower id;
  // peak->value is that sum. A token with logit −inf is never kept.
  void (*gumbel_max)(const VocabSlice& slice,
                     const VocabKeep& keep,
                     const GumbelKey& key,
                     VocabPeak* peak) = nullptr;
  // The same among the tokens of a list.
  void (*gumbel_max_of_list)(const VocabList& list,
                             const VocabKeep& keep,
                             const GumbelKey& key,
                             VocabPeak* peak) = nullptr;
};

// The table of an instruction set.
// Requires: isa is one of available_isas().
[[nodiscard]] const KernelTable& kernel_table(Isa isa);

}  // namespace phalanx::kernels
