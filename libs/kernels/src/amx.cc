// SPDX-License-Identifier: Apache-2.0
#include "amx/amx_tiles.h"
#include "amx/attention_tiles.h"
#include "amx/matmul_tiles.h"
#include "tables.h"

namespace phalanx::kernels {

namespace {

// All but products and attention by tiles is that of the lanes.
KernelTable amx_kernels() {
  KernelTable table = avx512vnni_table();
  table.isa = Isa::kAmx;
  table.matmul = amx_matmul_tile<AmxTiles>;
  table.attention = amx_attend_tile<AmxTiles>;
  return table;
}

}  // namespace

const KernelTable& amx_table() {
  static const KernelTable kTable = amx_kernels();
  return kTable;
}

}  // namespace phalanx::kernels
