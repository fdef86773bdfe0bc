// SPDX-License-Identifier: Apache-2.0
#include "amx/amx_tiles.h"
#include "amx/matmul_tiles.h"
#include "lanes/table_body.h"
#include "tables.h"

namespace phalanx::kernels {

namespace {

constexpr KernelTable amx_kernels() {
  KernelTable table = lanes_table(Isa::kAmx);
  table.matmul = amx_matmul_tile<AmxTiles>;
  return table;
}

}  // namespace

const KernelTable& amx_table() {
  static constexpr KernelTable kTable = amx_kernels();
  return kTable;
}

}  // namespace phalanx::kernels
