// SPDX-License-Identifier: Apache-2.0
#include "lanes/table_body.h"
#include "tables.h"

namespace phalanx::kernels {

const KernelTable& avxvnni_table() {
  static constexpr KernelTable kTable = lanes_table(Isa::kAvxVnni);
  return kTable;
}

}  // namespace phalanx::kernels
