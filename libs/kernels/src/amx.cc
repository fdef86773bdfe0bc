// SPDX-License-Identifier: Apache-2.0
#include "amx/amx_tiles.h"
#include "amx/attention_tiles.h"
#include "amx/matmul_tiles.h"
#include "lanes/rows_body.h"
#include "tables.h"

namespace phalanx::kernels {

namespace {

// All but products and attention by tiles is that of the lanes; what is rounded to bf16 is compiled
// again here, with the instruction for it.
KernelTable amx_kernels() {
  KernelTable table = avx512vnni_table();
  table.isa = Isa::kAmx;
  table.matmul = amx_matmul_tile<AmxTiles>;
  table.rms_norm = rms_norm_tile;
  table.head_norm_rope = head_norm_rope_tile;
  table.swiglu = swiglu_tile;
  table.attention = amx_attend_tile<AmxTiles>;
  return table;
}

}  // namespace

const KernelTable& amx_table() {
  static const KernelTable kTable = amx_kernels();
  return kTable;
}

}  // namespace phalanx::kernels
