// SPDX-License-Identifier: Apache-2.0
#include "phalanx/kernels/kernel_table.h"

#include "phalanx/base/check.h"

#include "tables.h"

namespace phalanx::kernels {

const KernelTable& kernel_table(Isa isa) {
  switch (isa) {
    case Isa::kRef:
      return ref_table();
    case Isa::kAvx2:
      return avx2_table();
    case Isa::kAvxVnni:
      return avxvnni_table();
    case Isa::kAvx512:
      return computes_512_bits_in_halves() ? avx512_in_halves_table() : avx512_table();
    case Isa::kAvx512Vnni:
      return computes_512_bits_in_halves() ? avx512vnni_in_halves_table() : avx512vnni_table();
    case Isa::kAvx512Bf16:
      return computes_512_bits_in_halves() ? avx512bf16_in_halves_table() : avx512bf16_table();
    case Isa::kAmx:
      return amx_table();
  }
  PHALANX_CHECK(false, "not an instruction set");
  return ref_table();
}

}  // namespace phalanx::kernels
