// SPDX-License-Identifier: Apache-2.0
#include "lanes/vnni_table_body.h"
#include "tables.h"

namespace phalanx::kernels {

const KernelTable& avxvnni_table() {
  static const KernelTable kTable = vnni_table<avx2_table>(Isa::kAvxVnni);
  return kTable;
}

}  // namespace phalanx::kernels
