// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kernel table over the lanes of the instruction set that this translation unit is compiled
// for.

#include "phalanx/kernels/kernel_table.h"

#include "lanes/attention_body.h"
#include "lanes/gumbel_body.h"
#include "lanes/kv_body.h"
#include "lanes/matmul_body.h"
#include "lanes/quantize_body.h"
#include "lanes/rows_body.h"
#include "lanes/vocab_body.h"

namespace phalanx::kernels {
namespace {

template <DataPath kPath = DataPath::kWhole>
constexpr KernelTable lanes_table(Isa isa) {
  return {.isa = isa,
          .matmul = matmul_tile<kPath>,
          .quantize = quantize_tile,
          .rms_norm = rms_norm_tile,
          .head_norm_rope = head_norm_rope_tile,
          .kv_append = kv_append_tile,
          .attention = attend_tile<kPath>,
          .attention_fold = fold_tile,
          .swiglu = swiglu_tile,
          .divide_by_temperature = divide_by_temperature_slice,
          .vocab_max = vocab_max_slice,
          .vocab_mass = vocab_mass_slice,
          .vocab_histogram = vocab_histogram_slice,
          .vocab_list = vocab_list_slice,
          .gumbel_max = gumbel_max_slice,
          .gumbel_max_of_list = gumbel_max_list};
}

}  // namespace
}  // namespace phalanx::kernels
