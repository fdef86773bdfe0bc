// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/kernel_table.h"

#include "phalanx/base/check.h"

#include "avx2/entries.h"
#include "avx512/entries.h"
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

constexpr KernelTable kAvx2Table = {.isa = Isa::kAvx2,
                                    .matmul = avx2::matmul,
                                    .rms_norm = avx2::rms_norm,
                                    .head_norm_rope = avx2::head_norm_rope,
                                    .attention = avx2::attention,
                                    .swiglu = avx2::swiglu,
                                    .vocab_max = avx2::vocab_max,
                                    .vocab_mass = avx2::vocab_mass,
                                    .vocab_histogram = avx2::vocab_histogram,
                                    .gumbel_max = avx2::gumbel_max};

constexpr KernelTable kAvx512Table = {.isa = Isa::kAvx512,
                                      .matmul = avx512::matmul,
                                      .rms_norm = avx512::rms_norm,
                                      .head_norm_rope = avx512::head_norm_rope,
                                      .attention = avx512::attention,
                                      .swiglu = avx512::swiglu,
                                      .vocab_max = avx512::vocab_max,
                                      .vocab_mass = avx512::vocab_mass,
                                      .vocab_histogram = avx512::vocab_histogram,
                                      .gumbel_max = avx512::gumbel_max};

}  // namespace

const KernelTable& kernel_table(Isa isa) {
  switch (isa) {
    case Isa::kRef:
      return kRefTable;
    case Isa::kAvx2:
      return kAvx2Table;
    case Isa::kAvx512:
      return kAvx512Table;
  }
  PHALANX_CHECK(false, "not an instruction set");
  return kRefTable;
}

}  // namespace phalanx::kernels
