// SPDX-License-Identifier: Apache-2.0
#include "ref/entries.h"
#include "tables.h"

namespace phalanx::kernels {

const KernelTable& ref_table() {
  static constexpr KernelTable kTable = {.isa = Isa::kRef,
                                         .matmul = ref::matmul,
                                         .quantize = ref::quantize,
                                         .rms_norm = ref::rms_norm,
                                         .head_norm_rope = ref::head_norm_rope,
                                         .kv_append = ref::kv_append,
                                         .attention = ref::attention,
                                         .attention_fold = ref::attention_fold,
                                         .swiglu = ref::swiglu,
                                         .divide_by_temperature = ref::divide_by_temperature,
                                         .vocab_max = ref::vocab_max,
                                         .vocab_mass = ref::vocab_mass,
                                         .vocab_histogram = ref::vocab_histogram,
                                         .vocab_list = ref::vocab_list,
                                         .gumbel_max = ref::gumbel_max,
                                         .gumbel_max_of_list = ref::gumbel_max_of_list};
  return kTable;
}

}  // namespace phalanx::kernels
