// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/kernel_table.h"

#include "phalanx/base/check.h"

#include "ref/entries.h"

namespace phalanx::kernels {

namespace {

constexpr KernelTable kRefTable = {.isa = Isa::kRef,
                                   .matmul = ref::matmul,
                                   .rms_norm = ref::rms_norm,
                                   .head_norm_rope = ref::head_norm_rope,
                                   .attention = ref::attention,
                                   .swiglu = ref::swiglu,
                                   .vocab_max = ref::vocab_max,
                                   .vocab_mass = ref::vocab_mass,
                                   .vocab_histogram = ref::vocab_histogram,
                                   .gumbel_max = ref::gumbel_max};

}  // namespace

const KernelTable& kernel_table(Isa isa) {
  switch (isa) {
    case Isa::kRef:
      return kRefTable;
    case Isa::kAvx2:
    case Isa::kAvx512:
      return kRefTable;
  }
  PHALANX_CHECK(false, "not an instruction set");
  return kRefTable;
}

}  // namespace phalanx::kernels
