// SPDX-License-Identifier: Apache-2.0
#include "lanes/table_body.h"
#include "tables.h"

namespace phalanx::kernels {

const KernelTable& avx512_table() {
  static constexpr KernelTable kTable = lanes_table(Isa::kAvx512);
  return kTable;
}

const KernelTable& avx512_in_halves_table() {
  static constexpr KernelTable kTable = lanes_table<DataPath::kInHalves>(Isa::kAvx512);
  return kTable;
}

}  // namespace phalanx::kernels
