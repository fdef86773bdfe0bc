// SPDX-License-Identifier: Apache-2.0
#include "lanes/vnni_table_body.h"
#include "tables.h"

namespace phalanx::kernels {

const KernelTable& avx512vnni_table() {
  static const KernelTable kTable = vnni_table<avx512_table>(Isa::kAvx512Vnni);
  return kTable;
}

const KernelTable& avx512vnni_in_halves_table() {
  static const KernelTable kTable =
      vnni_table<avx512_in_halves_table, DataPath::kInHalves>(Isa::kAvx512Vnni);
  return kTable;
}

}  // namespace phalanx::kernels
