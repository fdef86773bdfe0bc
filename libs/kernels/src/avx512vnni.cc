// SPDX-License-Identifier: Apache-2.0
#include "lanes/table_body.h"
#include "tables.h"

namespace phalanx::kernels {

const KernelTable& avx512vnni_table() {
  static constexpr KernelTable kTable = lanes_table(Isa::kAvx512Vnni);
  return kTable;
}

const KernelTable& avx512vnni_in_halves_table() {
  static constexpr KernelTable kTable = lanes_table<kMaxBlockRowsInHalves>(Isa::kAvx512Vnni);
  return kTable;
}

}  // namespace phalanx::kernels
